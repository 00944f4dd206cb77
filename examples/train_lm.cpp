// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A language model of bytes, trained on any text, which then continues a prompt. The model is written once
// (decoder.hpp); how it is sharded over the processes is one of seven tables, chosen per run: tensor or sequence
// parallel, over both axes, FSDP, ZeRO-1, a pipeline or a ring. For the same seed all of them, on any mesh, go through
// the same losses but for rounding: parameters and windows follow from the seed alone. With checkpoints a run continues
// on another mesh, also if it was killed.
//
//   mpirun -n 4 train_lm FILE [--layout tensor] [--mesh 2x2] [--steps 600] [--sample 200] [--prompt TEXT] ..., see
// --help
#include "decoder.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "train_lm/corpus.hpp"
#include "train_lm/language_model.hpp"

#include <cleave/nn/decoding.hpp>
#include <cleave/optim/schedule.hpp>

#include <cmath>
#include <limits>

namespace lm {

constexpr std::string_view usage =
    "usage: train_lm FILE [options]\n"
    "  FILE               the text; its last tenth is held out, to measure the validation loss\n"
    "  --layout NAME      tensor, sequence, finalized, fsdp, zero1, pipeline or ring (tensor)\n"
    "  --bf16             products in bfloat16; weights and state stay float\n"
    "  --mesh DxM         processes along data x model (as square as possible); the stages of a pipeline, and the "
    "chunks of a ring, are along model\n"
    "  --layers N         layers (2); with pipeline a multiple of M\n"
    "  --embed N          width of the model (64)\n"
    "  --heads N          attention heads; N divides --embed (4)\n"
    "  --hidden N         hidden units of a layer (4 times --embed)\n"
    "  --positions N      bytes of a window (64); with ring a multiple of M\n"
    "  --batch N          windows of a step (16)\n"
    "  --microbatches N   parts of a batch that follow each other through a pipeline; N divides --batch (4)\n"
    "  --steps N          steps of training (600)\n"
    "  --rate X           highest rate of learning (0.003)\n"
    "  --warmup N         steps until that is reached (a tenth of --steps); then it falls along half a cosine to a "
    "tenth of --rate\n"
    "  --decay X          decoupled weight decay (0)\n"
    "  --clip X           highest norm of all gradients together (1)\n"
    "  --seed N           of parameters, windows and samples (0)\n"
    "  --checkpoints DIR  saves the state there, and continues from its latest checkpoint if there is one: also on "
    "another mesh\n"
    "                     and in another layout\n"
    "  --every N          steps between checkpoints; the last two and the best stay (a fifth of --steps)\n"
    "  --until N          ends after so many of the steps, to be continued (--steps)\n"
    "  --log FILE.csv     writes step, loss, validation loss, rate and seconds, line by line\n"
    "  --plan             prints what a step communicates, with its bytes\n"
    "  --prompt TEXT      text that the sample continues (a new line)\n"
    "  --sample N         bytes to generate at the end (200)\n"
    "  --temperature X    spread of the choice of each byte; 0: always the likeliest (0.8)\n"
    "  --top-k N          choose among the N likeliest bytes; 0: all (0)\n"
    "  --top-p P          choose among the likeliest bytes that have a share P together (1)\n"
    "  --repetition X     makes bytes that were there less likely; 1: not (1)\n"
    "  --stop TEXT        ends the sample before it; may be given several times\n"
    "  --expect-below X   status 1 unless the last validation loss is below\n";

struct layout_entry {
  std::string_view name;
  made (*make)(const cleave::grid&, const settings&);
};
constexpr layout_entry layouts[] = {{"tensor", tensor_parallel},
                                    {"sequence", sequence_parallel},
                                    {"finalized", finalized},
                                    {"fsdp", fully_sharded},
                                    {"zero1", zero1},
                                    {"pipeline", pipeline_parallel},
                                    {"ring", ring_attention}};

const layout_entry& layout_named(std::string_view name) {
  std::string known;
  for (const layout_entry& l : layouts) {
    if (l.name == name) return l;
    known.append(known.empty() ? "" : ", ").append(l.name);
  }
  throw std::runtime_error("there is no layout '" + std::string(name) + "', only " + known);
}

/// The mean loss of some batches of the text that is held out, always the same ones.
double validation(language_model& model, const corpus& text, const settings& s) {
  const std::int64_t batches = std::clamp(text.held_out() / (s.batch * s.positions), std::int64_t{1}, std::int64_t{4});
  double total = 0;
  for (std::int64_t b = 0; b < batches; ++b) total += model.loss(text.held_out_windows(b, batches, s.batch));
  return total / static_cast<double>(batches);
}

/// Goes on with a text, byte by byte. Each is foretold from as many bytes before it as the model has positions. The
/// window is computed anew for each: simple, and one plan, at the price of a forward pass a byte.
void sample(language_model& model, const settings& s, std::string text, std::int64_t count,
            const cleave::nn::sampling& how, const std::vector<std::string>& stops, bool speaks) {
  std::mt19937_64 random(s.seed + 1);
  cleave::nn::text_stream<> stream(stops);
  std::vector<std::int32_t> seen;
  for (const char c : text) seen.push_back(static_cast<unsigned char>(c));
  // A terminal is spared the control characters that an untrained model makes.
  const auto say = [speaks](const std::string& shown) {
    for (const char c : shown)
      if (speaks) std::fputc(static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\t' ? c : '?', stdout);
    if (speaks) std::fflush(stdout);
  };
  if (speaks) std::printf("\n%s", text.c_str());
  for (std::int64_t i = 0; i < count && !stream.ended(); ++i) {
    const std::int64_t size = static_cast<std::int64_t>(text.size()),
                       begin = std::max(size - s.positions, std::int64_t{0});
    const auto byte = [&](std::int64_t, std::int64_t position) {
      const std::int64_t at = begin + position;
      return at < size ? static_cast<std::int32_t>(static_cast<unsigned char>(text[static_cast<std::size_t>(at)])) : 0;
    };
    seen.push_back(how.choose(model.scores(byte, size - begin - 1), random, seen));
    text.push_back(static_cast<char>(seen.back()));
    say(stream.push(text.substr(text.size() - 1)));
  }
  say(stream.rest());
  if (speaks) std::printf("\n");
}

int run(examples::options& given, int ranks, bool speaks) {
  settings s{};
  s.layers = given.number("--layers", std::int64_t{2});
  s.embed = given.number("--embed", std::int64_t{64});
  s.heads = given.number("--heads", std::int64_t{4});
  s.hidden = given.number("--hidden", 4 * s.embed);
  s.positions = given.number("--positions", std::int64_t{64});
  s.batch = given.number("--batch", std::int64_t{16});
  s.microbatches = given.number("--microbatches", std::int64_t{4});
  s.weight_decay = given.number_or_zero("--decay", 0.0f);
  s.limit = given.number("--clip", 1.0f);
  s.seed = given.number_or_zero("--seed", std::uint32_t{0});
  const auto steps = given.number("--steps", std::int64_t{600}), warmup = given.number_or_zero("--warmup", steps / 10);
  const auto samples = given.number_or_zero("--sample", std::int64_t{200});
  const double rate = given.number("--rate", 0.003);
  const cleave::nn::sampling how{given.number_or_zero("--temperature", 0.8),
                                 given.number_or_zero("--top-k", std::int64_t{0}), given.number("--top-p", 1.0),
                                 given.number("--repetition", 1.0)};
  std::vector<std::string> stops;
  for (std::string t = given.text("--stop"); !t.empty(); t = given.text("--stop")) stops.push_back(t);
  const double bound = given.number_or_zero("--expect-below", 0.0);
  const std::string log_path = given.text("--log"), prompt = given.text("--prompt", "\n"),
                    layout = given.text("--layout", "tensor"), folder = given.text("--checkpoints");
  const std::int64_t between = std::max(steps / 5, std::int64_t{1}), every = given.number("--every", between),
                     end = std::min(given.number("--until", steps), steps);
  s.in_bf16 = given.flag("--bf16");
  const std::array<long, 2> mesh = examples::mesh_of(given.sizes("--mesh"), ranks);
  const bool shows_plan = given.flag("--plan");
  const std::string path = given.word();
  given.done();
  if (path.empty()) throw std::runtime_error("the text is missing, see --help");

  // What is wrong shows in the order in which it costs little to find out.
  const layout_entry& chosen_layout = layout_named(layout);
  const corpus text(path, s.positions);
  const cleave::grid grid(decoder::mesh, MPI_COMM_WORLD, {mesh[0], mesh[1]});
  const made model = chosen_layout.make(grid, s);
  examples::csv_log log(speaks, log_path, "step,loss,validation,rate,seconds");
  if (speaks) {
    const auto bytes = static_cast<long long>(text.size()), held_out = static_cast<long long>(text.held_out());
    std::printf("%s: %lld bytes, %lld of them held out\n", path.c_str(), bytes, held_out);
    std::printf("%lld parameters, layout %s on a mesh of %ld x %ld\n", static_cast<long long>(model->parameters()),
                layout.c_str(), mesh[0], mesh[1]);
    if (shows_plan) std::printf("\n%s\n", model->plan().c_str());
  }

  const cleave::optim::cosine_decay schedule{rate, static_cast<double>(warmup), static_cast<double>(steps), rate / 10};
  cleave::io::checkpoints saved(grid, folder, {.keep = 2, .keep_best = true});
  const std::int64_t begin = !folder.empty() && saved.latest() ? model->restore(saved) : 0;
  if (speaks && begin > 0) std::printf("continues after step %lld\n", static_cast<long long>(begin));
  examples::progress shown(speaks, end, s.batch * s.positions, "tokens", begin);
  examples::curve losses;
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double loss = 0, judged = unknown;
  for (std::int64_t step = begin; step < end; ++step) {
    const double now = schedule(step + 1);
    loss = model->step(text.random_windows(s.seed, step, s.batch), static_cast<float>(now));
    // Every rank has the same loss, so all of them stop here.
    if (!std::isfinite(loss))
      throw std::runtime_error("the loss is no number any more at step " + std::to_string(step + 1) +
                               ": try a lower --rate");
    losses.add(loss);
    const bool saves = !folder.empty() && ((step + 1) % every == 0 || step + 1 == end),
               judges = saves || (step + 1) % between == 0 || step + 1 == end;
    if (judges) judged = validation(*model, text, s);
    if (saves) model->save(saved, step + 1, judged);
    log.write({static_cast<double>(step + 1), loss, judges ? judged : unknown, now, shown.seconds()});
    shown.show(step + 1, {{"loss", loss}, {"validation", judged}});
  }
  shown.leave();
  saved.wait();
  if (begin >= end) judged = validation(*model, text, s);
  if (speaks && begin < end)
    std::printf("%s\n%lld steps in %.1f s: loss %.4f, validation loss %.4f\n", losses.drawn("loss").c_str(),
                static_cast<long long>(end - begin), shown.seconds(), loss, judged);
  if (samples > 0) sample(*model, s, prompt, samples, how, stops, speaks);
  if (bound > 0 && !(judged < bound)) {
    if (speaks) std::printf("WRONG: the validation loss is not below %g\n", bound);
    return 1;
  }
  return 0;
}

} // namespace lm

int main(int argc, char** argv) { return examples::run(argc, argv, lm::usage, lm::run); }
