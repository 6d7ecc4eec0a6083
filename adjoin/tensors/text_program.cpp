#include "adjoin/tensors/text_program.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/tensors/text_inputs.hpp"

namespace adjoin::train {
TextProgram::TextProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration, TrainingInput input)
    : OfProgram(std::move(net), configuration, input), padding_(input.tokenizer.padding_id()) {
  check_reads_texts(*net_);
  const program::TensorSpec& scores = net_->output();
  require(scores.sizes.size() == 2 && (!scores.sizes[1].is_fixed || *scores.sizes[1].example == input.classes.size()),
          [&] {
            return net_->path() + ": its output is " + program::to_string(scores) + ", and the texts have " +
                   counted(input.classes.size(), "class", "classes");
          });
}

std::unique_ptr<Task> TextProgram::make(const Configuration& configuration) {
  return task_of<TextProgram>(configuration, read_training_input);
}

std::unique_ptr<Task> TextProgram::open(const Configuration& configuration, const std::filesystem::path& folder) {
  return task_of<TextProgram>(configuration, [&](const Configuration&) {
    return TrainingInput{read_words(folder), {}, {}};
  });
}

std::unique_ptr<Task> TextProgram::laid_out(const Configuration& configuration) const {
  return std::make_unique<TextProgram>(net_->laid_out(configuration), with_length(configuration, *net_), input());
}

std::vector<models::Segment> TextProgram::segments_for(int stages, const Communicator& world) const {
  return net_->segments(stages, world, texts_for(*net_));
}

MicroBatch TextProgram::micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                    Step step) const {
  MicroBatch batch = TextClassification::micro_batch(part, samples, mine, step);
  const std::vector<int64_t> lengths = this->lengths(part);
  int64_t longest = 1;  // of all ranks
  for (const int64_t sample : samples) longest = std::max(longest, lengths[static_cast<size_t>(sample)]);
  batch.input =
      padded_texts(batch.input, batch.pass.rows.all().lengths(), only_length(*net_).value_or(longest), padding_);
  batch.pass.rows = {};
  return batch;
}

}  // namespace adjoin::train
