// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A BLAS of one function: by plain loops, or wrong.
extern "C" void sgemm_(const char*, const char*, const int* m, const int* n, const int* k, const float*, const float* a,
                       const int* lda, const float* b, const int* ldb, const float*, float* c, const int* ldc) {
  for (long j = 0; j < *n; ++j) {
    for (long i = 0; i < *m; ++i) c[j * *ldc + i] = 0;
#if !defined(CLEAVE_wrong)
    for (long l = 0; l < *k; ++l)
      for (long i = 0; i < *m; ++i) c[j * *ldc + i] += a[l * *lda + i] * b[j * *ldb + l];
#else
    (void)a, (void)b, (void)lda, (void)ldb, (void)k;
#endif
  }
}
