"""adjoin/adjoin.hpp includes the whole library: each header, or one that is left out below for a reason."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LEFT_OUT = [  # a folder or headers of it, and why users do not need them
    ("base", "block_heap box carried_state checksum copying cores device_runtime hash instruction_set philox_blocks private_blocks process_owner processes reduction_loops shared_file shared_memory "
     "terminal text thread_memory utf8 with_type", "what the layers are made of"),
    ("cli", "*", "the program, which is not installed"),
    ("comm", "arguments staged_call stand_in", "how a Communicator checks and carries out a call"),
    ("comm/contract", "common_cause diagnosis own_call", "how a call is reported and kept"),
    ("comm/algorithm", "patterns perform", "how programs are made and carried out"),
    ("comm/host", "*", "a transport; launch chooses it"),
    ("comm/mpi", "*", "a transport; launch chooses it"),
    ("comm/threads", "*", "a transport; launch chooses it"),
    ("c", "*", "what adjoin.h is made of"),
    ("data", "gzip_failure random sample_words token_cache token_folder",
     "how data is read, written and made up"),
    ("data/tokenizer", "*", "parts of tokenizer_folder"),
    ("lab/measure", "stopwatch", "what a plan measures with"),
    ("lab", "flight_file packing svg", "the files of what is seen"),
    ("lab/trace", "*", "parts of lab/trace/trace.hpp"),
    ("insitu", "fields layers normaliser program_layer", "how a network is described"),
    ("linalg", "agreement grid_products local rounds row_products", "the products without autograd"),
    ("movement", "autocast_mode device_runtime exchange forward_mode graph_notes kinds_along libtorch marks on_threads rank_thread saved_value sent_tensors", "how movements send, and what check_gradients notes"),
    ("nn", "device_mask dropped_elements fill id_range", "the loops of dropout and initial values"),
    ("nn/distributed", "conv_kernel group_mean held linked planes pool_kernel twin widened", "what the layers are made of"),
    ("nn/fixed", "*", "kernels with the same bits in every piece, which `adjoin doctor --same-bits` tries"),
    ("rules", "*", "how operations run on global tensors"),
    ("nn/sequence", "composed_tile dropped_rows dropped_tile flash methods promises ring tile tile_batch", "what attention is made of"),
    ("hugging_face", "config_values export_tokenizer rotary_positions", "parts of pretrained and export_model"),
    ("parallel", "arriving_weights cut_layers dim_choices gradient_sums looked_up sharded_pieces shared_order weight_gathers weight_parts weight_units whole_matrices", "parts of weights, distribute, automatic and optimizer"),
    ("plan", "extrapolated_step layouts measured_segments measurements memory_walk optimizer_needs planned_run planned_samples rounds segment_needs skipped_products step_time "
     "workbench", "parts of plan.hpp and step_plan.hpp"),
    ("program", "archive check dataflow declared description evaluation fit numbers operators program_parts read_graph read_json recompute run weights", "how an exported program is read and run"),
    ("report", "chart failures page page_parts pictures planned_memory scale tables", "parts of a report's page"),
    ("store", "checkpoint_folders fail_alike messages npy on_root one_folder piece_runs read_text state_sums whole_checkpoint",
     "how files are read and written"),
    ("task", "class_weights precision transformer_options", "what options of texts and their models mean"),
    ("tensors", "*", "adjoin train --program"),
    ("texts", "class_counts class_report measured_texts trained_texts", "parts of the tasks of texts"),
    ("train", "autocast backward_slices failures flight_records prepared_run run_files training_order", "parts of trainer and commands"),
    ("train/bench", "*", "adjoin bench"),
]  # fmt: skip


def reached_from(header, seen):
    if header not in seen:
        seen.add(header)
        for included in re.findall(r'^#include "(adjoin/[^"]+)"', (ROOT / header).read_text(encoding="utf-8"), re.MULTILINE):
            reached_from(included, seen)
    return seen


class WholeHeader(unittest.TestCase):
    def setUp(self):
        self.reached = reached_from("adjoin/adjoin.hpp", set())
        headers = {path.relative_to(ROOT) for path in (ROOT / "adjoin").rglob("*.hpp")}
        self.left_out = {str(path) for path in headers for folder, names, _ in LEFT_OUT
                         if str(path.parent) == f"adjoin/{folder}" and (names == "*" or path.stem in names.split())}
        self.headers = {str(path) for path in headers}

    def test_reaches_each_header_or_says_why_not(self):
        missing = sorted(self.headers - self.reached - self.left_out)
        self.assertEqual(missing, [], "include them in adjoin/adjoin.hpp, or give a reason in LEFT_OUT")

    def test_names_only_headers_that_are_left_out(self):
        for folder, names, reason in LEFT_OUT:
            for name in [] if names == "*" else names.split():
                header = f"adjoin/{folder}/{name}.hpp"
                self.assertIn(header, self.headers, reason)
                self.assertNotIn(header, self.reached, reason)


if __name__ == "__main__":
    unittest.main()
