/// LibTorch and sentencepiece each have a global variable FLAGS_minloglevel, LibTorch a number of 4 bytes and sentencepiece an
/// object of 32. The dynamic linker gives both the one that it finds first: LibTorch's, and sentencepiece would write over
/// what lies behind it, by which LibTorch's errors end the process instead of being thrown. A program finds its own first,
/// which is this one, with room for either; LibTorch never writes its number and without glog does not read it.
extern "C" {
alignas(16) char FLAGS_minloglevel[64] = {};
extern const bool
    adjoin_has_shared_flag;  // link options of the library ask for it, so that all programs have the variable
const bool adjoin_has_shared_flag = true;
}
