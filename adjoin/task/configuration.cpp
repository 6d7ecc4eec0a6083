#include "adjoin/task/configuration.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::train {
namespace {

using C = Configuration;
using Classifier = models::ClassifierOptions;
using Experts = models::ExpertOptions;
using Rotary = nn::RotaryOptions;
constexpr double kMany = 1e15;  // numbers up to it are exact in double and int64
constexpr double kMostExperts = 65536;
constexpr double kLarge = 1 << 24;  // products of two sizes below it stay far below 2^63

/// Reaches a member of a configuration, or one of a member.
template <auto... path>
constexpr auto at() {
  using Member = std::remove_reference_t<decltype((std::declval<C&>().*....*path))>;
  using Value = std::conditional_t<std::is_enum_v<Member>, uint8_t, Member>;
  return Access<Value>{[](C& c) -> Value& { return reinterpret_cast<Value&>((c.*....*path)); }};
}

// clang-format off
constexpr Field kFields[] = {
    // group, name, member, help, choices, least, most, the only model that has it
    {"Data", "data", at<&C::data>(), "Training and test texts: a folder with train and test files (.csv, .tsv or .jsonl, also .gz), folders train/CLASS/*.txt and test/CLASS/*.txt, one such file or a folder CLASS/*.txt, of which a tenth is then held out for testing, or \"sample\" for the embedded corpus; for a decoder also a file of paragraphs, a folder of .txt files or of source code, or a folder that adjoin tokenize wrote. With --program and without --vocab, tensors: x, or by the names of the program's inputs, and y, in train.safetensors and test.safetensors or as NAME.npy in folders train and test, or one such file or folder, of which every tenth sample is then held out for testing (required)", ""},
    {"Data", "test", at<&C::test>(), "File or folder of test texts; without it the test part of a folder that has one, else every tenth text of each class is held out, of a decoder's documents the last 20th", ""},
    {"Data", "text_column", at<&C::text_column>(), "Name of the column of texts; without it \"text\" or \"review\"", ""},
    {"Data", "label_column", at<&C::label_column>(), "Name of the column of labels, words or numbers; without it \"label\" or \"sentiment\"", "", 0, 0, "classifier"},
    {"Data", "class_weights", at<&C::class_weights>(), "Weights of the classes in the loss of training: \"balanced\", so that all classes weigh equally, however many texts they have, or a number above 0 for each, in the order of the classes, as 1,2.5; without it all texts weigh equally", "", 0, 0, "classifier"},
    {"Data", "vocab", at<&C::vocab>(), "What turns texts into tokens: a WordPiece vocabulary, one piece a line; for a decoder \"bytes\", \"subword\", or the vocab.model of a run or of adjoin tokenize; for either a tokenizer of Hugging Face's transformers, its folder or its tokenizer.json. Without it a vocabulary is learned from the training texts", ""},
    {"Data", "samples", at<&C::samples>(), "Training and test samples to use: a classifier's in a balanced order, a decoder's first sequences; 0: all", "", 0, kMany},
    {"Data", "bucket", at<&C::bucket>(), "Put samples of similar length into one batch, so that ranks have about equal work", ""},
    {"Data", "shuffle", at<&C::shuffle>(), "Whether each epoch has the training samples in a new order; off: always in that of the data", "on|off"},

    {"Data", "validation", at<&C::validation>(), "Fraction of the training samples, below 1, that is held out and evaluated instead of the test samples during training; the weights with the best result on it become the model; 0: none", "", 0, 1},

    {"Model", "from", at<&C::from>(), "Folder of a model with which training begins: one of Hugging Face's transformers (config.json, safetensors and tokenizer, of the kind {families}), or of an earlier run. It decides the model and its vocabulary", ""},
    {"Model", "program", at<&C::program>(), "A network that Python exported (a .pt2 file, which adjoin program shows) instead of one of adjoin's own; it trains from the weights in it. With --vocab it gets the texts of --data as input_ids, and as attention_mask and token_type_ids if it has these inputs; without it --data are tensors", ""},
    {"Model", "preset", at<&C::preset>(), "Sizes and training recipe, a column of the tables below; options that are given override it. Without it: small, or gpt-small for a decoder; with --from: fine-tune, or fine-tune-gpt for a decoder", "tiny|small|bert-base|bert-large|fine-tune|gpt-tiny|gpt-small|gpt2|fine-tune-gpt"},
    {"Model", "model", at<&C::model>(), "What is trained: a classifier of texts, or a decoder, which predicts the next token", "classifier|decoder"},
    {"Model", "vocabulary_size", at<&C::vocabulary_size>(), "Pieces in a vocabulary that is trained on the texts (where --vocab names none)", "", 64, kLarge},
    {"Model", "layers", at<&C::layers>(), "Transformer blocks", "", 1, 10000},
    {"Model", "hidden", at<&C::hidden>(), "Features of a token, a multiple of --heads unless --head-size is given", "", 1, kLarge},
    {"Model", "heads", at<&C::heads>(), "Attention heads", "", 1, kLarge},
    {"Model", "key_heads", at<&C::key_heads>(), "Heads of a decoder's keys and values; must divide --heads, because equally many heads share each; 0: as many as --heads", "", 0, kLarge, "decoder"},
    {"Model", "head_size", at<&C::head_size>(), "Features of an attention head; 0: --hidden divided by --heads", "", 0, kLarge},
    {"Model", "inner", at<&C::inner>(), "Features between the two layers of a feed-forward; 0: 4 times --hidden, with swiglu 8/3 times", "", 0, kLarge},
    {"Model", "activation", at<&C::activation>(), "Function between the two layers of a feed-forward: gelu; gelu_tanh, an approximation of it, which GPT-2 has; or, in a decoder, swiglu: silu(a) times b, where a and b are two products", "gelu|gelu_tanh|swiglu", 0, 0, "swiglu=decoder"},
    {"Model", "words", at<&C::words>(), "Rows of the embedding, at least as many as the vocabulary has pieces; 0: as many", "", 0, kLarge},
    {"Model", "sequence", at<&C::sequence>(), "Most tokens of a text to classify, [CLS] and [SEP] included, the rest being cut off; for a decoder, tokens of a training sequence", "", 2, kLarge},
    {"Model", "context", at<&C::context>(), "Number of tokens for which the model has positions, at least --sequence; 0: as many as --sequence", "", 0, kLarge},
    {"Model", "pooling", at<&C::classifier, &Classifier::pooling>(), "What the classifier sees: the first token, or the mean of all", "cls|mean", 0, 0, "classifier"},
    {"Model", "positions", at<&C::positions>(), "How the model knows the tokens' positions: not at all, by embeddings, or, in a decoder, by rotating queries and keys", "none|learned|rotary", 0, 0, "rotary=decoder none=classifier"},
    {"Model", "score_scale", at<&C::score_scale>(), "Attention scores are divided by the square root of this size", "hidden|head", 0, 0, "classifier"},
    {"Model", "norm", at<&C::norm>(), "LayerNorm, or RMSNorm, which subtracts no mean and has no bias", "layer|rms"},
    {"Model", "norm_place", at<&C::norm_place>(), "Where norms stand: before attention and feed-forward, or, in a classifier, after the sum of each with its input, as in BERT", "before|after", 0, 0, "after=classifier"},
    {"Model", "norm_epsilon", at<&C::norm_epsilon>(), "What a norm adds to the variance (rms: to the mean of squares) before it divides by the root, above 0", "", 0, 1},
    {"Model", "final_norm", at<&C::final_norm>(), "Norm after the last block; a decoder has one in any case", "", 0, 0, "classifier"},
    {"Model", "embedding_norm", at<&C::embedding_norm>(), "Normalise the sum of a classifier's embeddings, as BERT does", "", 0, 0, "classifier"},
    {"Model", "token_types", at<&C::token_types>(), "Vectors of a classifier for kinds of text, of which each token gets the first; BERT has 2. 0: none", "", 0, kLarge, "classifier"},
    {"Model", "pooler", at<&C::classifier, &Classifier::pooler>(), "Give a classifier's head the form of BERT's: biases, and tanh instead of gelu between its two layers", "", 0, 0, "classifier"},
    {"Model", "attention_bias", at<&C::attention_bias>(), "Which layers of attention have biases: none; qkv: those of queries, keys and values; all: that of the output too", "none|qkv|all"},
    {"Model", "feed_forward_bias", at<&C::feed_forward_bias>(), "Give both layers of a feed-forward biases", ""},
    {"Model", "tied_scores", at<&C::tied_scores>(), "Let a decoder score words with the weight of its embedding; without it, the scores have a weight of their own", "", 0, 0, "decoder"},
    {"Model", "rotary_base", at<&C::rotary, &Rotary::base>(), "Base of rotary positions: of n pairs of features in a head, pair i turns by base^(-i/n) from token to token", "", 1, kMany},
    {"Model", "rotary_scaling", at<&C::rotary, &Rotary::scaling>(), "Turn rotary positions more slowly, for longer texts: linear divides all turns by --rotary-factor, llama3 those of the pairs that turn around seldom", "none|linear|llama3"},
    {"Model", "rotary_factor", at<&C::rotary, &Rotary::factor>(), "What --rotary-scaling divides by", "", 1, kMany},
    {"Model", "rotary_low_turns", at<&C::rotary, &Rotary::low_turns>(), "With llama3: pairs that turn around less often than this within --rotary-trained tokens are slowed by the whole factor", "", 0, kMany},
    {"Model", "rotary_high_turns", at<&C::rotary, &Rotary::high_turns>(), "With llama3: pairs that turn around more often than this are not slowed; more than --rotary-low-turns", "", 0, kMany},
    {"Model", "rotary_trained", at<&C::rotary, &Rotary::trained_tokens>(), "With llama3: length in tokens of the texts on which the model was first trained", "", 1, kLarge},
    {"Model", "dropout", at<&C::dropout>(), "Probability that a feature is dropped, 0 up to below 1", "", 0, 1},
    {"Model", "attention_dropout", at<&C::attention_dropout>(), "Dropout of the attention probabilities, 0 up to below 1", "", 0, 1},
    {"Model", "embedding_dropout", at<&C::embedding_dropout>(), "Dropout of the embeddings, 0 up to below 1; -1: as --dropout in a decoder and with --embedding-norm, else 0", "", -1, 1},
    {"Model", "classifier_dropout", at<&C::classifier, &Classifier::dropout>(), "Dropout between the two layers of a classifier's head, 0 up to below 1; -1: as --dropout", "", -1, 1, "classifier"},
    {"Model", "token_dropout", at<&C::token_dropout>(), "Probability that a token is left out of a text to classify in training, 0 up to below 1", "", 0, 1, "classifier"},
    {"Model", "experts", at<&C::experts, &Experts::count>(), "Feed-forward layers of a block, its experts, of which a router chooses --top-k for each token; 1: one layer, and no router", "", 1, kMostExperts},
    {"Model", "top_k", at<&C::experts, &Experts::top_k>(), "Experts of each token, at most --experts; 0: 2, or 1 where there is one expert", "", 0, kLarge},
    {"Model", "moe_every", at<&C::experts, &Experts::every>(), "Every block whose number is a multiple of this has experts; at most --layers", "", 1, 10000},
    {"Model", "normalise_gates", at<&C::experts, &Experts::normalises_gates>(), "Scale the gates of a token's experts so that they add up to 1; without it, they are the router's probabilities over all experts", ""},

    {"Training", "batch", at<&C::batch>(), "Samples of a step over all ranks", "", 1, kLarge},
    {"Training", "microbatches", at<&C::microbatches>(), "Parts into which each rank divides its samples of a step, to compute them one after another with so many times less memory for activations. With --pp they keep the ranks busy, and memory depends on how many are in flight at once", "", 1, kLarge},
    {"Training", "epochs", at<&C::epochs>(), "Passes over the training samples", "", 1, 1e6},
    {"Training", "steps", at<&C::steps>(), "Steps of the whole training, instead of --epochs; 0: those of the epochs", "", 0, kMany},
    {"Training", "max_time", at<&C::max_time>(), "Seconds after which this run takes no further step: it saves, evaluates and ends, and --resume continues it; 0: no limit", "", 0, kMany},
    {"Training", "optimizer", at<&C::optimizer>(), "How weights follow their gradients: AdamW, stochastic gradient descent, or Muon, which makes the updates of matrices orthogonal and leaves vectors, embeddings and the last layer to AdamW", "adamw|sgd|muon"},
    {"Training", "loss", at<&C::loss>(), "What a --program on tensors learns: cross_entropy of its scores and classes y, mse (mean of squared errors), bce (cross-entropy of two classes, 0 and 1, for each number), or none where it returns the loss itself", "cross_entropy|mse|bce|none"},
    {"Training", "masks", at<&C::masks>(), "What draws the masks of dropout and other random numbers of a --program: adjoin, by seed, step and coordinates, so that they are the same in every layout, or, on one rank, torch's own generator, seeded once, so that they are those of a loop in Python after torch.manual_seed(--seed)", "adjoin|torch"},
    {"Training", "momentum", at<&C::momentum>(), "Momentum of sgd, 0 up to below 1; that of muon is 0.95", "", 0, 1},
    {"Training", "lr", at<&C::lr>(), "Highest learning rate", "", 0, 1e3},
    {"Training", "schedule", at<&C::schedule>(), "How the learning rate falls after the warm-up: along half a cosine, along a line, or not at all", "cosine|linear|constant"},
    {"Training", "warmup", at<&C::warmup>(), "Fraction of all steps in which the learning rate rises from 0, 0 to 1", "", 0, 1},
    {"Training", "lr_end", at<&C::lr_end>(), "Learning rate that the schedule would reach after the last step, as a fraction of --lr, 0 to 1", "", 0, 1},
    {"Training", "weight_decay", at<&C::weight_decay>(), "Weight decay of matrices: decoupled, per unit of learning rate, in AdamW and Muon; sgd adds that fraction of the weights to the gradients", "", 0, 1e3},
    {"Training", "clip", at<&C::clip>(), "Largest global norm of the gradients; 0: no clipping", "", 0, kMany},
    {"Training", "balance_loss", at<&C::experts, &Experts::balance_loss>(), "Weight of a term of the loss that grows as experts get unequal numbers of a text's tokens; 0: none", "", 0, 1e3},
    {"Training", "z_loss", at<&C::experts, &Experts::z_loss>(), "Weight of a term of the loss for large scores of a router, their squared log-sum of exponentials; 0: none", "", 0, 1e3},
    {"Training", "precision", at<&C::precision>(), "Numbers of the forward and backward pass; bf16 and fp16 keep weights in float32, and fp16 scales the loss", "fp64|fp32|bf16|fp16"},
    {"Training", "seed", at<&C::seed>(), "Decides weights, dropout and the order of the samples, the same on every layout", "", 0, kMany},

    {"Training", "same_bits", at<&C::same_bits>(), "Give weights, losses and norms the same bits in every layout: off, or on, where sums are divided as the batch and the model suggest, or as lanes=4,leaves=2,features=2,tokens=1 says, any of them: so many ranges of the batch's samples, ranges of a lane's samples, ranges of heads, hidden features and words, and blocks of a sample's tokens. Ranks along --dp beyond the lanes hold nothing; --tp is at most features, and --cp at most tokens. For fp32 and bf16", ""},

    {"Layout", "dp", at<&C::dp>(), "Data-parallel ranks: each takes its part of the batch; 0: the MPI job's ranks, or else this machine's cores, divided by --pp times --cp times --tp", "", 0, 1e6},
    {"Layout", "pp", at<&C::pp>(), "Pipeline-parallel ranks: each holds some of the model's layers", "", 1, 1e6},
    {"Layout", "cp", at<&C::cp>(), "Context-parallel ranks: each holds a part of every sequence; at most --sequence", "", 1, 1e6},
    {"Layout", "tp", at<&C::tp>(), "Tensor-parallel ranks: each holds its part of every layer; at most --heads", "", 1, 1e6},
    {"Layout", "ep", at<&C::ep>(), "Expert-parallel ranks: so many of the data-parallel ranks share the experts, and each holds its part of them; must divide --dp and --experts", "", 1, 1e6},
    {"Layout", "sp", at<&C::sp>(), "Sequence parallelism: tensor-parallel ranks share the rows between their layers, so that each keeps and normalises only its part", ""},
    {"Layout", "zero", at<&C::zero>(), "What is divided among the ranks that train the same weights, so that each keeps only its part (ZeRO's stages): 0: nothing, 1: the optimizer's moments, 2: the gradients too, 3: the weights too, of which a rank then holds one whole segment at a time, between hosts two", "", 0, 3},
    {"Layout", "cp_method", at<&C::cp_method>(), "How context-parallel ranks get each other's keys and values: ring passes them from rank to rank; with ulysses each rank gets all rows of some heads; with gathered each rank gets all of them and keeps the scores of its rows", "ring|ulysses|gathered"},
    {"Layout", "pipeline", at<&C::pipeline>(), "In which order pipeline-parallel ranks act on micro-batches: {schedules}, or a file.csv (adjoin pipeline --help)", ""},
    {"Layout", "chunks", at<&C::chunks>(), "Stages that each pipeline-parallel rank holds, with --pipeline interleaved", "", 1, 1e6},
    {"Layout", "stages", at<&C::stages>(), "How many segments of the model (embedding, blocks and head) each stage takes, as 4,3; without it, as many as make all stages cost about the same", ""},
    {"Layout", "halves", at<&C::halves>(), "Divide each micro-batch into two halves that take turns: where one waits for the other tensor-parallel ranks, the other computes. Saves time where --tp spans hosts; the losses are those of twice the --microbatches", ""},
    {"Layout", "recompute", at<&C::recompute>(), "What is not kept for backward but computed again there: the scores of attention, which only --cp-method gathered keeps, or everything within a block", "none|attention|segment"},
    {"Layout", "backend", at<&C::backend>(), "What the ranks are; auto: MPI processes under mpirun or srun, else threads", "auto|threads|mpi"},
    {"Layout", "device", at<&C::device>(), "Where ranks compute: cpu; cuda: each rank on the GPU of its place on its host, by turns where there are fewer; or one GPU for all, as cuda:1", ""},
    {"Layout", "fast", at<&C::fast>(), "Let a GPU compute more quickly and less exactly: TF32, sums in 16 bits and in any order, flash attention; two runs then differ in their last digits", ""},
    {"Layout", "threads_per_rank", at<&C::threads_per_rank>(), "CPU threads that compute for one rank; 0: the machine's cores divided by the ranks on it", "", 0, 4096},
    {"Layout", "deterministic", at<&C::deterministic>(), "Sum over ranks in rank order also under MPI, so that threads and MPI give the same bits", ""},
    {"Layout", "host_memory", at<&C::host_memory>(), "Whether MPI processes of one host access each other's memory, which makes them as quick as threads; auto: where they can, unless ADJOIN_HOST_MEMORY says otherwise; on: refuse the run where they cannot", "auto|on|off"},
    {"Layout", "checked", at<&C::checked>(), "Before each collective, compare the ranks' calls also under MPI, as threads always do, and whether the tensor that moves requires a gradient on all of them or on none", ""},
    {"Layout", "check_gradients", at<&C::check_gradients>(), "Search the graph of the first step before its backward, and name what would make a gradient differ from one rank's", ""},
    {"Layout", "deadline", at<&C::deadline>(), "Seconds that one call may wait before the run ends and prints which rank waits for which; 0: ADJOIN_DEADLINE, or 300; at least a thousandth of a second", "", 0, 1e6},

    {"Output", "out", at<&C::out>(), "Folder for metrics, summary, model and checkpoint: new, empty, or written by adjoin before (required)", ""},
    {"Output", "overwrite", at<&C::overwrite>(), "Replace the run that --out already holds; without it, such a folder is refused", ""},
    {"Output", "resume", at<&C::resume>(), "Folder of a run to continue from its checkpoint, on any layout; its options apply except those that are given, and --out is that folder unless given. \"auto\": continue the run in --out if it has a checkpoint, else begin one", ""},
    {"Output", "step", at<&C::step>(), "Step of the checkpoint from which --resume continues; later ones are removed. 0: the newest undamaged one", "", 0, kMany},
    {"Output", "eval_every", at<&C::eval_every>(), "Steps between evaluations; 0: at the end only, or with --validation after each epoch", "", 0, kMany},
    {"Output", "patience", at<&C::patience>(), "Number of validations in a row without a new best one after which training ends; 0: no limit", "", 0, kMany},
    {"Output", "checkpoint_every", at<&C::checkpoint_every>(), "Steps between checkpoints; 0: after each epoch", "", 0, kMany},
    {"Output", "save", at<&C::save>(), "While a checkpoint is written, the run goes on, and each rank keeps a copy in memory of what it writes (background), or the run waits (wait)", "background|wait"},
    {"Output", "keep", at<&C::keep>(), "How many of the newest checkpoints are kept", "", 1, kMany},
    {"Output", "tensorboard", at<&C::tensorboard>(), "Write the metrics for TensorBoard too, into the folder tensorboard in --out", ""},
    {"Output", "hash_every", at<&C::hash_every>(), "Steps between lines of metrics.jsonl with a hash of all bits of weights and moments, which is the same whatever the layout; 0: none", "", 0, kMany},
    {"Output", "trace", at<&C::trace>(), "Steps, counted from 1, to record in trace.json.gz in --out, which shows in ui.perfetto.dev what each rank did when: one, as 3, or the first and the last, as 3-5", ""},
};

// One row for each preset, one column for each field. "-": the model has no such field.
constexpr std::string_view kPresets[] = {
    "preset     model      vocabulary_size layers hidden heads sequence pooling positions score_scale final_norm dropout token_dropout batch epochs lr     weight_decay precision",
    "tiny       classifier            2000      2     64     4       64 mean    learned   head        true           0.1             0    32     10 0.001          0.01 fp32",
    "small      classifier            8000      1     64     4      512 mean    none      head        false          0.2           0.5    32      4 0.002          0.05 fp32",
    "bert-base  classifier           30522     12    768    12      512 cls     none      hidden      false          0.1             0     8      1 0.0001         0.01 fp32",
    "bert-large classifier           30522     24   1024    16      512 cls     none      hidden      false          0.1             0     8      1 0.0001         0.01 fp32",
    "fine-tune  classifier               -      -      -     -      256 -       -         -           -                -             -    32      3 0.00003        0.01 fp32",
    "gpt-tiny   decoder                512      2     64     4      128 -       rotary    -           -                0             -    16     10 0.003          0.01 fp32",
    "gpt-small  decoder               4000      4    256     8      256 -       rotary    -           -              0.1             -    16      1 0.001           0.1 fp32",
    "gpt2       decoder              50257     12    768    12     1024 -       learned   -           -              0.1             -     8      1 0.0003          0.1 fp32",
    "fine-tune-gpt decoder               -      -      -     -      512 -       -         -           -                -             -     8      1 0.00005        0.01 fp32",
};
// clang-format on

/// The place of a value among the field's choices.
size_t choice_of(const Field& field, std::string_view value) {
  const std::vector<std::string_view> choices = parts_of(field.choices, '|');
  const auto found = std::ranges::find(choices, value);
  require(found != choices.end(), [&] {
    return option_of(field.name) + " is \"" + std::string(value) + "\", expected one of " + joined(choices);
  });
  return static_cast<size_t>(found - choices.begin());
}

}  // namespace

ModelOptions::ModelOptions()
    : TransformerOptions{.layers = 2,
                         .hidden = 128,
                         .heads = 4,
                         .positions = Positions::learned,
                         .final_norm = true,
                         .embedding_dropout = -1,
                         .experts = {.top_k = 0, .balance_loss = 0.01, .z_loss = 0.001, .axis = "ep"}} {}

std::string shown(double number) {
  std::ostringstream text;
  text.precision(15);
  text << number;
  return text.str();
}

std::span<const Field> fields() {
  return kFields;
}

const Field& field_named(std::string_view name) {
  const auto* found = std::ranges::find(kFields, name, &Field::name);
  require(found != std::end(kFields), [&] { return "there is no option " + option_of(name); });
  return *found;
}

std::string text_of(const Field& field, const Configuration& configuration) {
  const auto text = [&](const auto& value) -> std::string {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::string>)
      return value;
    else if constexpr (std::is_same_v<Value, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_same_v<Value, uint8_t>)
      return std::string(parts_of(field.choices, '|')[value]);
    else
      return shown(static_cast<double>(value));
  };
  return std::visit([&](auto member) { return text(member(configuration)); }, field.member);
}

std::string text_of(std::string_view field, const Configuration& configuration) {
  return text_of(field_named(field), configuration);
}

void set(const Field& field, std::string_view text, Configuration& configuration) {
  const size_t choice = field.choices.empty() ? 0 : choice_of(field, text);
  const auto assign = [&](auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::string>)
      value = text;
    else if constexpr (std::is_same_v<Value, bool>) {
      require(text == "true" || text == "false",
              [&] { return option_of(field.name) + " is " + std::string(text) + ", expected true or false"; });
      value = text == "true";
    } else if constexpr (std::is_same_v<Value, uint8_t>)
      value = static_cast<Value>(choice);
    else
      value = number_from<Value>(text, option_of(field.name));
  };
  std::visit([&](auto member) { assign(member(configuration)); }, field.member);
}

void set(std::string_view field, std::string_view text, Configuration& configuration) {
  set(field_named(field), text, configuration);
}

const std::vector<std::vector<std::string_view>>& presets() {
  static const auto rows = [] {
    std::vector<std::vector<std::string_view>> words;
    for (const std::string_view row : kPresets) std::erase(words.emplace_back(parts_of(row, ' ')), "");
    return words;
  }();
  return rows;
}

std::string_view recipe_of(ModelKind model) {
  return model == ModelKind::decoder ? "fine-tune-gpt" : "fine-tune";
}

Configuration configuration_of(std::string_view preset) {
  Configuration c;
  set("preset", preset, c);
  const auto& names = presets()[0];
  const auto& values = *std::ranges::find(presets(), preset, [](const auto& row) { return row[0]; });
  for (size_t i = 1; i < names.size(); ++i)
    if (values[i] != "-") set(names[i], values[i], c);
  return c;
}

std::string_view default_preset(ModelKind model) {
  static const Configuration defaults;
  return model == ModelKind::decoder ? "gpt-small" : std::string_view(defaults.preset);
}

bool preset_decides(std::string_view field) {
  const auto& names = presets()[0];
  return field != names[0] && std::ranges::find(names, field) != names.end();
}

bool is_for_programs(const Field& field) {
  static const std::set<std::string_view> of_model{"program", "model", "vocabulary_size", "sequence"};
  if (field.group == "Model") return of_model.contains(field.name);
  static const std::set<std::string_view> own{"cp", "ep", "sp", "cp_method", "stages", "halves"};
  return !own.contains(field.name);
}

bool resumed_run_keeps(const Field& field) {
  if (field.group == "Model") return !field.name.ends_with("dropout") && field.name != "from";
  return field.name == "vocab" || field.name == "optimizer" || field.name == "loss";
}

bool concerns(const Field& field, const Configuration& configuration) {
  if (configuration.task.empty() || (field.group != "Data" && field.group != "Model")) return true;
  static const Configuration defaults;
  return field.name == "validation" || field.name == "bucket" ||
         std::visit([&](auto member) { return member(configuration) != member(defaults); }, field.member);
}

bool beginning_decides(const Field& field) {
  return field.name == "vocab" || (field.group == "Model" && field.name != "from" && field.name != "sequence" &&
                                   !field.name.ends_with("dropout"));
}

nlohmann::ordered_json to_json(const Configuration& configuration) {
  nlohmann::ordered_json json;
  if (!configuration.task.empty()) json["task"] = configuration.task;
  for (const Field& field : kFields)
    if (concerns(field, configuration))
      std::visit(
          [&](auto member) {
            auto& value = json[std::string(field.name)];
            if constexpr (std::is_same_v<decltype(member), Access<uint8_t>>)
              value = text_of(field, configuration);
            else
              value = member(configuration);
          },
          field.member);
  return json;
}

Configuration configuration_from_json(const nlohmann::ordered_json& json) {
  require(json.is_object(), "the configuration is not a JSON object");
  for (const auto& [key, value] : json.items())
    require(key == "task" || std::ranges::find(kFields, key, &Field::name) != std::end(kFields),
            "the configuration has an unknown key: " + key);
  const auto get = [&](const Field& field, Configuration& into) {
    const auto found = json.find(std::string(field.name));
    if (found == json.end()) return;
    std::visit(
        [&](auto member) {
          using Value = typename decltype(member)::Value;
          constexpr bool is_text = std::is_same_v<Value, std::string> || std::is_same_v<Value, uint8_t>;
          const bool fits = is_text                         ? found->is_string()
                            : std::is_same_v<Value, bool>   ? found->is_boolean()
                            : std::is_same_v<Value, double> ? found->is_number()
                                                            : found->is_number_integer();
          require(fits, "the configuration's " + std::string(field.name) + " has the wrong type: " + found->dump());
          if constexpr (is_text)
            set(field, found->template get_ref<const std::string&>(), into);
          else
            found->get_to(member(into));
        },
        field.member);
  };
  Configuration named;
  get(field_named("preset"), named);
  const bool is_own = json.contains("task");
  Configuration configuration = is_own ? Configuration() : configuration_of(named.preset);
  if (is_own) {
    require(json["task"].is_string(), "the configuration's task has the wrong type: " + json["task"].dump());
    configuration.task = json["task"];
  }
  for (const Field& field : kFields) get(field, configuration);
  return configuration;
}

std::string option_of(std::string_view field) {
  std::string option = "--" + std::string(field);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

}  // namespace adjoin::train
