# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a program and stays where it was if a signal ends it, so that the launcher of MPI goes on as on a machine that does not answer.
"$@"
status=$?
echo "a process ends with $status"
if [ $status -gt 128 ]; then sleep 8; fi
exit $status
