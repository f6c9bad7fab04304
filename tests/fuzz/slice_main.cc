// Runs one fuzz target without libFuzzer, in every build and under every sanitizer: on its seeds,
// on what is left of them at the front, and on mutations of them, the same ones each time. The long
// runs are those of tools/fuzz.sh.
//
//   <target> CORPUS_FOLDER MUTATIONS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kLargestInput = 1 << 16;

void Run(const std::string& input) {
  // A copy of the exact size, so that AddressSanitizer sees reads beyond the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> ReadSeeds(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    paths.push_back(entry);
  }
  if (error || paths.empty()) {
    std::fprintf(stderr, "%s: no seeds\n", folder.c_str());
    std::exit(1);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string Next() {
    std::string input = Any();
    for (int changes = 1 + Below(4); changes > 0; --changes) Change(input);
    input.resize(std::min(input.size(), kLargestInput));
    return input;
  }

 private:
  size_t Below(size_t count) { return count == 0 ? 0 : random_() % count; }
  const std::string& Any() { return seeds_[Below(seeds_.size())]; }

  // A piece of `text`.
  std::string Piece(const std::string& text) {
    const size_t begin = Below(text.size());
    return text.substr(begin, 1 + Below(std::min<size_t>(64, text.size() - begin)));
  }

  void Change(std::string& input) {
    const size_t at = Below(input.size() + 1);
    const size_t length = std::min<size_t>(1 + Below(16), input.size() - at);
    switch (Below(6)) {
      case 0:  // another byte
        if (at < input.size()) input[at] = static_cast<char>(random_());
        return;
      case 1:  // another bit
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
        return;
      case 2:
        input.erase(at, length);
        return;
      case 3:
        input.insert(at, Piece(Any()));
        return;
      case 4:
        input.replace(at, length, Piece(Any()));
        return;
      default:
        input.insert(at, std::string(1 + Below(8), "0123456789[{\"-e,\xff"[Below(16)]));
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::vector<std::string> seeds = ReadSeeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "there are no seeds in %s\n", argv[1]);
    return 1;
  }
  Run("");
  for (const std::string& seed : seeds) {
    Run(seed);
    for (int part = 1; part < 16; ++part) Run(seed.substr(0, seed.size() * part / 16));
  }
  Mutator mutator(seeds);
  for (int i = std::atoi(argv[2]); i > 0; --i) Run(mutator.Next());
  return 0;
}
