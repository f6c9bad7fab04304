// Dropout, losses, optimizers.
#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

void AddDropout(CaseList& l) {
  const Tensor ratio = Tensor::Scalar(0.25f), on = Tensor::Scalar(true),
               off = Tensor::Scalar(false);
  const Attrs seed = MakeAttrs({{"seed", int64_t{7}}});
  for (const Shape& shape : {Shape{6, 4}, Shape{}, Shape{3, 3, 3}}) {
    l.Add("Dropout", {l.Data(shape)});
    l.Add("Dropout", {l.Data(shape), ratio, on}, seed);
    l.Add("Dropout", {l.Data(shape), ratio, off}, seed, 2);
    l.Add("Dropout", {l.Data(shape), Tensor(), on, Tensor::Scalar(int64_t{3})}, seed, 2);
  }
}

void AddLosses(CaseList& l) {
  for (const char* reduction : {"none", "sum", "mean"}) {
    for (const Shape& scores : {Shape{6, 4}, Shape{2, 4, 3}}) {
      Shape labels{scores[0]};
      if (scores.rank() > 2) labels.push_back(scores[2]);
      const Attrs plain = MakeAttrs({{"reduction", reduction}});
      const Attrs ignoring = MakeAttrs({{"reduction", reduction}, {"ignore_index", int64_t{1}}});
      const Shape of_loss = reduction == std::string_view("none") ? labels : Shape{};
      for (const bool weighted : {false, true}) {
        const auto operands = [&] {
          std::vector<Tensor> list = {l.Data(scores), l.Indices(labels, 0, 4)};
          if (weighted) list.push_back(l.Data({4}, 0.5, 2));
          return list;
        };
        for (const Attrs& attrs : {plain, ignoring}) {
          l.Add("NegativeLogLikelihoodLoss", operands(), attrs);
          l.Add("SoftmaxCrossEntropyLoss", operands(), attrs);
          l.Add("SoftmaxCrossEntropyLoss", operands(), attrs, 2);
          std::vector<Tensor> of_grad = operands();
          of_grad.resize(3);
          of_grad.push_back(l.Data(of_loss));
          l.Add("grad.NegativeLogLikelihoodLoss", of_grad, attrs, weighted ? 2 : 1);
          l.Add("grad.SoftmaxCrossEntropyLoss", of_grad, attrs, weighted ? 2 : 1);
          of_grad.push_back(l.Data(scores));
          l.Add("grad.SoftmaxCrossEntropyLoss", of_grad, attrs, weighted ? 2 : 1);
        }
      }
    }
  }
}

void AddOptimizers(CaseList& l) {
  const Tensor rate = Tensor::Scalar(0.125f), step = Tensor::Scalar(int64_t{2});
  for (const Shape& shape : {Shape{6, 4}, Shape{}}) {
    const auto data = [&] { return l.Data(shape); };
    const auto positive = [&] { return l.Data(shape, 0.5, 2); };
    const auto param = [&] { return std::vector<Tensor>{data(), data(), rate}; };
    const auto with = [&](std::vector<Tensor> states) {
      std::vector<Tensor> operands = param();
      operands.insert(operands.end(), states.begin(), states.end());
      return operands;
    };
    const Attrs decay = MakeAttrs({{"weight_decay", 0.25}});
    l.Add("optim.SGD", param(), decay);
    for (const bool nesterov : {false, true}) {
      l.Add("optim.SGD", with({data()}), MakeAttrs({{"momentum", 0.5}, {"nesterov", nesterov}}), 2);
    }
    l.Add("optim.Adagrad", with({positive()}), decay, 2);
    l.Add("optim.RMSProp", with({positive()}), decay, 2);
    l.Add("optim.RMSProp", with({l.Data(shape, 4, 5), data(), data()}),
          MakeAttrs({{"momentum", 0.5}, {"centered", true}, {"alpha", 0.75}}), 4);
    l.Add("optim.Adam", with({step, data(), positive()}), decay, 3);
    l.Add("optim.AdamW", with({step, data(), positive()}), decay, 3);
  }
}

}  // namespace

void AddTrainingCases(CaseList& l) {
  AddDropout(l);
  AddLosses(l);
  AddOptimizers(l);
}

}  // namespace millrace::optest
