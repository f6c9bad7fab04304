// The explicit list of models. Adding one: write its file, add its line here.
#include "bench/models/model.h"

namespace millrace {

// clang-format off
#define MILLRACE_MODELS(MODEL) \
  MODEL(MlpModel) \
  MODEL(LeNetModel) \
  MODEL(AlexNetModel) \
  MODEL(Vgg16Model) \
  MODEL(ResNet18Model) \
  MODEL(ResNet50Model) \
  MODEL(ResNet152Model) \
  MODEL(WideResNet50Model) \
  MODEL(InceptionV3Model) \
  MODEL(MobileNetV2Model) \
  MODEL(DenseNet121Model) \
  MODEL(UnetModel) \
  MODEL(BertBaseModel) \
  MODEL(BertLargeModel) \
  MODEL(Gpt2Model) \
  MODEL(Gpt2DecodeModel) \
  MODEL(GptModel) \
  MODEL(VitB16Model) \
  MODEL(LstmModel) \
  MODEL(Seq2SeqModel) \
  MODEL(MixtureOfExpertsModel) \
  MODEL(DlrmModel)
// clang-format on

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
