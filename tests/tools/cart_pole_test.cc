// Reinforcement learning: a policy that balances a pole on a cart, trained by REINFORCE. The graph
// computes its own loss, -log p(action) * advantage; one plan of it acts, another one trains.
//
// The cart is that of Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve
// difficult learning control problems" (1983), with the limits it is usually given: an episode ends
// when the cart is 2.4 m off, the pole leans by 12 degrees, or after 500 steps.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "graph/graph_json.h"
#include "tests/tools/run_millrace.h"
#include "tools/trainer.h"

namespace millrace {
namespace {

constexpr int kMaxSteps = 500;
constexpr int64_t kBatch = 2048;  // steps of one update
constexpr int kUpdates = 60;

class CartPole {
 public:
  explicit CartPole(std::mt19937& random) {
    std::uniform_real_distribution<float> start(-0.05f, 0.05f);
    for (float& value : state_) value = start(random);
  }

  const std::array<float, 4>& state() const { return state_; }
  int steps() const { return steps_; }
  bool is_over() const {
    return std::abs(state_[0]) > 2.4f ||
           std::abs(state_[2]) > 12 * std::numbers::pi_v<float> / 180 || steps_ >= kMaxSteps;
  }

  void Push(bool right) {
    constexpr float kGravity = 9.8f, kCart = 1, kPole = 0.1f, kHalfLength = 0.5f, kForce = 10,
                    kSeconds = 0.02f;
    auto& [x, speed, angle, turn] = state_;
    const float sine = std::sin(angle), cosine = std::cos(angle);
    const float push =
        ((right ? kForce : -kForce) + kPole * kHalfLength * turn * turn * sine) / (kCart + kPole);
    const float turn_rate = (kGravity * sine - cosine * push) /
                            (kHalfLength * (4.0f / 3 - kPole * cosine * cosine / (kCart + kPole)));
    const float speed_rate = push - kPole * kHalfLength * turn_rate * cosine / (kCart + kPole);
    x += kSeconds * speed;
    speed += kSeconds * speed_rate;
    angle += kSeconds * turn;
    turn += kSeconds * turn_rate;
    ++steps_;
  }

 private:
  std::array<float, 4> state_ = {};
  int steps_ = 0;
};

absl::StatusOr<Graph> LoadPolicy(int64_t batch) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file,
                            OpenModelFile(SourceFile("tests/data/training/cart_pole.json")));
  return LoadInferredGraph(file, {StrCat("N=", batch)});
}

// What happened, as the training graph takes it.
struct Experience {
  Tensor observation = Tensor::Zeros({DType::kF32, {kBatch, 4}});
  Tensor action = Tensor::Zeros({DType::kI64, {kBatch}});
  Tensor advantage = Tensor::Zeros({DType::kF32, {kBatch}});
  double mean_episode = 0;
};

class Player {
 public:
  explicit Player(Session& session) : session_(session) {}

  // Whole episodes until the batch is full; steps beyond it are played, but not learned from.
  absl::StatusOr<Experience> Play(std::mt19937& random) {
    Experience experience;
    std::vector<float> returns;
    int episodes = 0;
    int64_t played = 0;
    while (played < kBatch) {
      CartPole cart(random);
      const int64_t first = played;
      for (; !cart.is_over(); ++played) {
        MILLRACE_ASSIGN_OR_RETURN(const bool right, Choose(cart, random));
        if (played < kBatch) {
          std::ranges::copy(cart.state(),
                            experience.observation.mutable_data<float>().begin() + 4 * played);
          experience.action.mutable_data<int64_t>()[static_cast<size_t>(played)] = right;
        }
        cart.Push(right);
      }
      for (int64_t i = first; i < played; ++i) returns.push_back(static_cast<float>(played - i));
      ++episodes;
    }
    experience.mean_episode = static_cast<double>(played) / episodes;
    returns.resize(kBatch);
    SetAdvantages(returns, experience.advantage);
    return experience;
  }

 private:
  absl::StatusOr<bool> Choose(const CartPole& cart, std::mt19937& random) {
    MILLRACE_RETURN_IF_ERROR(
        session_.SetInput("observation", Tensor::FromSpan<float>({1, 4}, std::span(cart.state()))));
    MILLRACE_RETURN_IF_ERROR(session_.Run());
    MILLRACE_ASSIGN_OR_RETURN(const Tensor policy, session_.Output("policy"));
    return std::uniform_real_distribution<float>()(random) < policy.data<float>()[1];
  }

  // How far the steps that are left exceed their mean, in deviations.
  static void SetAdvantages(const std::vector<float>& returns, Tensor& advantage) {
    double sum = 0, squares = 0;
    for (const float value : returns) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double mean = sum / kBatch;
    const double deviation = std::sqrt(squares / kBatch - mean * mean) + 1e-6;
    for (int64_t i = 0; i < kBatch; ++i) {
      advantage.Set(i, (returns[static_cast<size_t>(i)] - mean) / deviation);
    }
  }

  Session& session_;
};

// Only the policy, of one observation.
absl::StatusOr<PreparedGraph> PrepareActing() {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadPolicy(1));
  graph.outputs = {graph.outputs[1]};
  MILLRACE_ASSIGN_OR_RETURN(PreparedGraph prepared, PreparedGraph::Prepare(std::move(graph), {}));
  Session& session = prepared.session();
  MILLRACE_RETURN_IF_ERROR(session.SetInput("action", Tensor::Zeros({DType::kI64, {1}})));
  MILLRACE_RETURN_IF_ERROR(session.SetInput("advantage", Tensor::Zeros({DType::kF32, {1}})));
  return prepared;
}

TEST(CartPoleTest, APolicyLearnsToBalance) {
  TrainingSpec spec;
  spec.loss.kind = LossKind::kOutput;
  spec.rate.rate = 0.01;
  absl::StatusOr<Graph> graph = LoadPolicy(kBatch);
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<TrainingGraph> training = BuildTrainingGraph(*std::move(graph), spec);
  ASSERT_TRUE(training.ok()) << training.status();
  absl::StatusOr<PreparedGraph> learner = PreparedGraph::Prepare(training->graph, {});
  ASSERT_TRUE(learner.ok()) << learner.status();
  absl::StatusOr<PreparedGraph> actor = PrepareActing();
  ASSERT_TRUE(actor.ok()) << actor.status();

  std::mt19937 random(7);
  Player player(actor->session());
  double first = 0, best = 0;
  for (int update = 0; update < kUpdates && best < 400; ++update) {
    const absl::StatusOr<Experience> experience = player.Play(random);
    ASSERT_TRUE(experience.ok()) << experience.status();
    if (update == 0) first = experience->mean_episode;
    best = std::max(best, experience->mean_episode);
    Session& session = learner->session();
    ASSERT_TRUE(session.SetInput("observation", experience->observation).ok());
    ASSERT_TRUE(session.SetInput("action", experience->action).ok());
    ASSERT_TRUE(session.SetInput("advantage", experience->advantage).ok());
    ASSERT_TRUE(session.Run().ok());
    std::map<std::string, Tensor> policy;
    for (const std::string& name : training->trained) policy[name] = *session.Param(name);
    ASSERT_TRUE(actor->session().Reload(policy).ok());
  }
  std::printf("cart pole: episodes of %.0f steps, after training of %.0f\n", first, best);
  EXPECT_LT(first, 60);
  EXPECT_GT(best, 195);  // what counts as solved
}

}  // namespace
}  // namespace millrace
