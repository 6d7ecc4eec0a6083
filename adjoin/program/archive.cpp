#include "adjoin/program/archive.hpp"

#include <caffe2/serialize/inline_container.h>

#include <fstream>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::program {

Archive::Archive(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const auto length = std::filesystem::file_size(path_, error);
  if (error || !std::ifstream(path_)) throw InvalidArgument(path_.string() + ": this file cannot be read");
  try {
    reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path_.string());
    for (const std::string& record : reader_->getAllRecords())
      if (reader_->getRecordSize(record) > length)
        refuse("the record " + record + " claims to be longer than the file");
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    refuse("this is not a whole file of torch.export: it cannot be read as a zip archive");
  }
}
Archive::~Archive() = default;

bool Archive::contains(const std::string& record) const {
  return reader_->hasRecord(record);
}

std::vector<std::string> Archive::records() const {
  return reader_->getAllRecords();
}

int64_t Archive::bytes_of(const std::string& record) const {
  if (!contains(record)) refuse("there is no record " + record + " in the file");
  try {
    return static_cast<int64_t>(reader_->getRecordSize(record));
  } catch (const std::exception&) {
    refuse("the record " + record + " is damaged");
  }
}

void Archive::read(const std::string& record, void* into, int64_t bytes) const {
  try {
    reader_->getRecord(record, into, static_cast<size_t>(bytes));
  } catch (const std::exception&) {
    refuse("the record " + record + " is damaged");
  }
}

std::string Archive::text(const std::string& record) const {
  std::string text(static_cast<size_t>(bytes_of(record)), '\0');
  read(record, text.data(), static_cast<int64_t>(text.size()));
  return text;
}

void Archive::refuse(const std::string& what) const {
  throw InvalidArgument(path_.string() + ": " + what);
}

}  // namespace adjoin::program
