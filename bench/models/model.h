// The model zoo: architectures that people know, as graphs with seeded weights. A model is a
// function of its settings; one line in model_list.cc makes it known.
#ifndef MILLRACE_BENCH_MODELS_MODEL_H_
#define MILLRACE_BENCH_MODELS_MODEL_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// A setting of a model: an integer, or one of a few words.
struct ModelOption {
  std::string name;
  std::string doc;
  int64_t value = 0;  // unless set; with words: the index of one
  int64_t min = 1, max = 1;
  std::vector<std::string> words = {};
};

// A value for each option of a model.
class ModelSettings {
 public:
  explicit ModelSettings(std::span<const ModelOption> options);
  int64_t operator[](std::string_view name) const;  // CHECKs that there is such an option
  void Set(std::string_view name, int64_t value);   // likewise

 private:
  std::map<std::string, int64_t, std::less<>> values_;
};

struct Model {
  std::string name;  // "resnet50"
  std::string doc;   // one line: architecture and paper
  std::vector<ModelOption> options;
  // Inferred and verified for every value its options allow.
  Graph (*build)(const ModelSettings& settings) = nullptr;
};

// In the order of the list.
std::span<const Model> AllModels();
// UsageError that names the nearest.
absl::StatusOr<const Model*> FindModel(std::string_view name);

// "batch=8", "spelling=primitive". UsageError for what is malformed, unknown, out of range or given
// twice.
absl::StatusOr<ModelSettings> ParseModelSettings(const Model& model,
                                                 std::span<const std::string> sets);

// Options that several models have.
ModelOption BatchOption();
ModelOption SizeOption(int64_t value, int64_t min);  // of square images
ModelOption SpellingOption();                        // of transformer_layers.h

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_MODEL_H_
