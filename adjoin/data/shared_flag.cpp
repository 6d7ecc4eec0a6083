/// LibTorch and sentencepiece each have a global variable FLAGS_minloglevel: in LibTorch a number of 4 bytes, in sentencepiece
/// an object of 32. The dynamic linker gives both libraries the first one that it finds, LibTorch's, and sentencepiece would
/// overwrite the memory after it; errors in LibTorch then end the process instead of being thrown. A program's own variable is
/// found first: this one, with room for either. LibTorch never writes its number and does not read it without glog.
extern "C" {
alignas(16) char FLAGS_minloglevel[64] = {};
extern const bool
    adjoin_has_shared_flag;  // the library's link options require it, so that all programs have the variable
const bool adjoin_has_shared_flag = true;
}
