// The explicit list of models. Adding one: write its file, add its line here.
#include "bench/models/model.h"

namespace millrace {

#define MILLRACE_MODELS(MODEL) \
  MODEL(ResNet18Model)         \
  MODEL(ResNet50Model)         \
  MODEL(ResNet152Model)        \
  MODEL(MobileNetV2Model)      \
  MODEL(BertBaseModel)         \
  MODEL(Gpt2Model)

#define DECLARE(model) Model model();
MILLRACE_MODELS(DECLARE)
#undef DECLARE

std::span<const Model> AllModels() {
#define MAKE(model) model(),
  static const Model kModels[] = {MILLRACE_MODELS(MAKE)};
#undef MAKE
  return kModels;
}

}  // namespace millrace
