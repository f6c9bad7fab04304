// Data files as samples for the inputs of a training graph.
#ifndef MILLRACE_TOOLS_TRAIN_DATA_H_
#define MILLRACE_TOOLS_TRAIN_DATA_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "runtime/dataset.h"

namespace millrace {

// The inputs that data are for.
struct DataInputs {
  const Graph* graph = nullptr;  // dim 0 of each input counts samples
  std::string target;            // one of them, what the model is to give; empty: none is
  int64_t classes = 0;           // the target is a class below that; 0: it is no class
};

// `specs` are either "NAME=@FILE" for each input, where @FILE is as in ReadValue ("@x.npy",
// "@x.csv.gz:0-63", "@images.idx"), or one file for all of them:
//   x.csv, x.csv.gz  the columns are the elements of the input, then those of the target
//   x.npz            an array for each input, by its name
//   another          text: the input is bytes at [N,positions], the target the byte that follows
//                    each of them, or, [N], the one that follows them all
// Integers are converted to the inputs' types, and samples reshaped to theirs. UsageError for specs
// that do not fit the inputs; BadInputError for files that do not, and labels that are no class,
// with the row.
absl::StatusOr<Dataset> ReadDataset(std::string_view option, const std::vector<std::string>& specs,
                                    const DataInputs& inputs);

// "--eval 0.2": sample i is held out where that makes the share of samples held out so far exceed
// the fraction by less than one: spread evenly, for 0.2 those with i % 5 == 4. nullopt when `text`
// is no number from 0 to 1, both excluded.
std::optional<double> ParseFraction(std::string_view text);
struct SplitSamples {
  std::vector<int64_t> train, held_out;
};
SplitSamples Split(int64_t count, double fraction);  // 0: nothing is held out
std::vector<int64_t> AllSamples(const Dataset& dataset);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_TRAIN_DATA_H_
