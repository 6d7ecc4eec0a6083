#include "adjoin/tensors/decoder_program.hpp"

#include <ATen/ops/tensor.h>

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/tensors/text_inputs.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {

DecoderProgram::DecoderProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration,
                               LanguageInput input)
    : OfProgram(std::move(net), configuration, std::move(input)), sequence_(configuration.sequence) {
  check_reads_texts(*net_);
  require(!net_->batch(), [&] {
    return net_->path() + ": it takes " + std::to_string(*net_->batch()) +
           " texts at once alone, and a batch has as many as documents: export it with this size dynamic";
  });
  const program::TensorSpec& scores = net_->output();
  require(scores.sizes.size() == 3 && scores.sizes[2].is_fixed && *scores.sizes[2].example >= vocabulary().size(), [&] {
    return net_->path() + ": its output is " + program::to_string(scores) +
           ", expected scores [texts, tokens, words] of the " + std::to_string(vocabulary().size()) +
           " words of the vocabulary";
  });
}

std::unique_ptr<Task> DecoderProgram::make(const Configuration& configuration) {
  return task_of<DecoderProgram>(configuration, read_language_input);
}

std::unique_ptr<Task> DecoderProgram::open(const Configuration& configuration, const std::filesystem::path& folder) {
  return task_of<DecoderProgram>(configuration, [&](const Configuration&) {
    return LanguageInput{read_vocabulary(folder), {}, {}, text_or_nothing(folder / kTextsFile)};
  });
}

std::unique_ptr<Task> DecoderProgram::laid_out(const Configuration& configuration) const {
  auto task =
      std::make_unique<DecoderProgram>(net_->laid_out(configuration), with_length(configuration, *net_), words());
  task->share(*this);
  return task;
}

std::vector<models::Segment> DecoderProgram::segments_for(int stages, const Communicator& world) const {
  const auto without_padding = [](const at::Tensor& scores, const at::Tensor& input) {
    const at::Tensor places = input.select(1, 1).flatten().nonzero().squeeze(1);
    return scores.flatten(0, 1).index_select(0, places);
  };
  return net_->segments(stages, world, texts_for(*net_), without_padding);
}

MicroBatch DecoderProgram::micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                       Step step) const {
  MicroBatch batch = LanguageModelling::micro_batch(part, samples, mine, step);
  batch.input = padded_texts(batch.input, batch.pass.rows.all().lengths(), sequence_, /*padding=*/0);
  batch.pass.rows = {};
  return batch;
}

at::Tensor DecoderProgram::loss(const at::Tensor& scores, const MicroBatch& batch, const Grid&) const {
  return nn::cross_entropy(scores, batch.target.to(scores.device()));
}

at::Tensor DecoderProgram::input_of(const std::vector<int64_t>& tokens) const {
  const auto length = static_cast<int64_t>(tokens.size());
  return padded_texts(at::tensor(tokens, at::kLong), {length}, only_length(*net_).value_or(length), /*padding=*/0);
}

}  // namespace adjoin::train
