"""The planted bugs, and who catches each. A further one is a further entry.

Most are mistakes that papers, public code or earlier drafts really made; none may pass unseen.
"""

from planting import Plant

DOOR, NOISE, GRID = "hearsay.release.door", "hearsay.release.noise", "hearsay.release.grid"
BOUNDS, LEDGER = "hearsay.accounting.bounds", "hearsay.accounting.ledger"
UPDATES = "hearsay.release.updates"
PARTITION, TRAINING = "hearsay.private.partition", "hearsay.private.training"

DRAW = "return total + sample(self.scale, total.size).reshape(total.shape)"
URANDOM = "def rounded_normal(sigma: Fraction, size: int, entropy: Entropy = os.urandom) -> Ints:"

PLANTS = (
    # The noise
    Plant("noise halved", DOOR, DRAW, DRAW.replace("self.scale", "self.scale / 2"),
          "tests/test_mechanism_audit.py::test_the_variance_is_right"),
    Plant("noise three per cent low", DOOR, DRAW, DRAW.replace("self.scale", "self.scale * Fraction(97, 100)"),
          "tests/test_mechanism_audit.py::test_the_variance_is_right"),
    Plant("noise for the mean put on the sum", "hearsay.release.asking",
          "scale = plan.scale_for(bound, len(questions), share, noise)",
          "scale = plan.scale_for(bound, len(questions), share, noise) / teachers.store.count",
          "tests/test_pipeline.py::test_every_recipe_and_ablation_runs_within_its_budget[ask2]"),
    Plant("noise for the mean put on the sum, charged as if it were right", DOOR, DRAW,
          DRAW.replace("self.scale", "self.scale / 20"),
          "tests/test_mechanism_audit.py::test_the_draw_at_epsilon_three"),
    Plant("noise reused from question to question", NOISE, URANDOM, URANDOM.replace("os.urandom", "cache(os.urandom)"),
          "tests/test_door.py::test_asked_twice_is_answered_once"),
    Plant("one draw for all coordinates", DOOR, DRAW,
          "return total + sample(self.scale, 1).repeat(total.size).reshape(total.shape)",
          "tests/test_mechanism_audit.py::test_the_door_draws_every_coordinate_anew"),
    Plant("noise redrawn for a paid answer", DOOR, "            if charge is None:\n".strip("\n"),
          "            if charge is None or not (self.answers / f'{question.name}.npy').exists():",
          "tests/test_door.py::test_a_head_that_cannot_be_written_does_not_lose_the_paid_answer"),
    Plant("noise from a seeded generator", NOISE, URANDOM,
          URANDOM.replace("os.urandom", "np.random.default_rng(0).bytes"),
          "tests/test_noise.py::test_two_forks_of_one_process_draw_different_noise"),
    Plant("an un-noised rest bucket", DOOR, DRAW,
          f"{DRAW} * (np.arange(total.shape[-1]) < total.shape[-1] - 1)",
          "tests/test_mechanism_audit.py::test_the_variance_is_right"),
    Plant("no noise at all", DOOR, "answer = question.draw(total.total.cpu().numpy())",
          "answer = total.total.cpu().numpy()",
          "tests/test_door.py::test_asked_twice_is_answered_once"),
    # The bounds
    Plant("sensitivity 1 for sqrt 2", BOUNDS, "* questions * (1 if self.alone else 2))",
          "* questions * (1 if self.alone else 1))",
          "tests/test_recipes.py::test_replacing_a_teacher_moves_the_sum_by_at_most_the_stated_sensitivity"),
    Plant("sensitivity C for 2C", BOUNDS, "* (1 if self.alone else 4))", "* (1 if self.alone else 1))",
          "tests/test_accounting.py::test_sensitivities"),
    Plant("k questions charged as one", DOOR, "self.bound.sensitivity_squared(self.questions)",
          "self.bound.sensitivity_squared(1)", "tests/test_door.py::test_events_say_what_was_drawn"),
    Plant("clipping after the sum", GRID, "steps = on_grid(vectors, self.bound)",
          "steps = on_grid(vectors.sum(0, keepdim=True), self.bound)",
          "tests/test_recipes.py::test_mean_vote_and_root_by_hand"),
    Plant("no clipping", GRID, "_shrunk(vectors.double(), bound) * STEPS", "vectors.double() * STEPS",
          "tests/test_recipes.py::test_residuals_of_an_untrained_teacher_are_exactly_zero_and_clipping_is_joint"),
    # The account
    Plant("an uncounted round", LEDGER, "after = self._after(before, event)",
          "after = before if before.spent else self._after(before, event)",
          "tests/test_ledger.py::test_charges_are_found_again_and_add_up_exactly"),
    Plant("a budget that is never refused", LEDGER, "if after.spent > self.budget.capacity:", "if False:",
          "tests/test_ledger.py::test_the_budget_is_filled_to_the_brim_and_not_one_unit_more"),
    Plant("an answer outside before its charge", DOOR, "_write(path, answer)",
          "_write(self.answers / path.name, answer)", "tests/test_door.py::test_a_refused_question_leaves_nothing"),
    Plant("a paid draw thrown away on resume", DOOR, 'if charge is None or path.suffix != ".npy":', "if path.suffix:",
          "tests/test_door.py::test_each_step_of_the_door[committed]"),
    Plant("a student trained again under one charge", "hearsay.release.results", "bound = door.ledger.result(charge)",
          "bound = None", "tests/test_results.py::test_killed_at_each_step_there_is_one_result[bound]"),
    Plant("a student outside before its result is bound", "hearsay.release.results", "    make(inside)",
          "    make(outside)", "tests/test_results.py::test_killed_at_each_step_there_is_one_result[written]"),
    # DP-SGD
    Plant("a unit that is not finite, flat", "hearsay.baselines.dpsgd", "_drop_unbounded(optimiser.params)", "pass",
          "tests/test_baselines.py::test_a_unit_that_is_not_finite_counts_as_nothing_and_moves_nobody[False]"),
    Plant("a unit that is not finite, ghost", "hearsay.baselines.dpsgd", "if finite.all():", "if True:",
          "tests/test_baselines.py::test_a_unit_that_is_not_finite_counts_as_nothing_and_moves_nobody[True]"),
    Plant("cuDNN's attention for DP-SGD", "hearsay.baselines.learner", "with sdpa_kernel(KERNELS):", "if True:",
          "tests/test_baselines.py::test_no_cudnn_attention_while_the_learner_computes[gpt2]"),
    # The shards
    Plant("a user in two shards", PARTITION, "self._shards.append(unit % self._settings.shards)",
          "self._shards.append((unit + self._given[unit]) % self._settings.shards)",
          "tests/test_partition.py::test_a_unit_far_larger_than_all_others_changes_one_shard[user]"),
    Plant("duplicates removed across shards", PARTITION, "name = text_hash(self._key, unit, row.text)",
          "name = text_hash(self._key, 0, row.text)", "tests/test_partition.py::test_dedupe_inside_a_unit_only"),
    Plant("a cap that nobody keeps", PARTITION, "or self._given[unit] >= self._settings.cap:", "or False:",
          "tests/test_partition.py::test_cap_is_per_unit_and_takes_the_first_rows_long_enough"),
    Plant("a balanced split", PARTITION, "self._shards.append(unit % self._settings.shards)",
          "self._shards.append(list(self._given).index(unit) % self._settings.shards)",
          "tests/test_partition.py::test_shards_ignore_the_order_of_other_units_and_runs"),
    # The teachers
    Plant("a shared gradient clip", TRAINING, "norms = torch.linalg.vector_norm(grad, dim=1, keepdim=True)",
          "norms = torch.linalg.vector_norm(grad)[None, None]",
          "tests/test_stack.py::test_a_huge_gradient_leaves_other_updates_alone"),
    Plant("sampling with replacement", "hearsay.private.packing", "order = stream.permutation(kept)",
          "order = stream.choice(kept, len(kept))", "tests/test_stack.py::test_rows_hold_whole_sentences_and_cycle"),
    Plant("one random stream for all teachers", "hearsay.private.stack", "np.random.default_rng([generation, teacher])",
          "np.random.default_rng(generation)",
          "tests/test_stack.py::test_each_teacher_and_generation_has_an_order_of_its_own"),
    # Updates
    Plant("a sample drawn at twice the rate that is charged", UPDATES, "rate.numerator * 2**64 // rate.denominator",
          "rate.numerator * 2**65 // rate.denominator",
          "tests/test_updates.py::test_coins_fall_by_chance_at_their_rate"),
    Plant("a sample charged with more noise than it got", DOOR, "SubsampledGaussian(self.rate, self.scale / STEPS, 1,",
          "SubsampledGaussian(self.rate, 2 * self.scale / STEPS, 1,",
          "tests/test_updates.py::test_a_sampled_round_is_charged_as_what_was_committed"),
    Plant("a sample that everybody is in", "hearsay.private.units",
          "wanted = np.arange(len(self)) if chosen is None else np.flatnonzero(chosen)",
          "wanted = np.arange(len(self))",
          "tests/test_updates.py::test_only_units_whose_coin_fell_take_part"),
    Plant("a sample that everybody is in, from the crowd on", UPDATES,
          "chosen = None if self.rate == 1 else coins(self.rate, len(self.units))", "chosen = None",
          "tests/test_updates.py::test_only_units_whose_coin_fell_take_part"),
    Plant("a mean over the true number of units", UPDATES, "float(crowd.declared * crowd.rate)",
          "float(len(crowd.units) * crowd.rate)",
          "tests/test_updates.py::test_the_mean_divides_by_the_declared_number"),
    Plant("a unit that pulls its neighbours along", "hearsay.private.moves",
          "return -output_gradient(self.top, state, 0)",
          "return (found := -output_gradient(self.top, state, 0)) - 1e-6 * found.mean(0)",
          "tests/test_updates.py::test_dropping_a_unit_removes_its_vector_and_moves_nobody_else[gpt2-1]"),
    # Sums from elsewhere
    Plant("a partial sum of another bound", GRID, "or other.bound != self.bound ", "",
          "tests/test_ray.py::test_only_bounded_sums_of_one_kind_are_added"),
    # What is told
    Plant("a private count in the progress", "hearsay.pipeline",
          'partition = make_partition(config, lm, run.private / "shards")',
          'partition = make_partition(config, lm, run.private / "shards"); '
          'run.note("shards", sentences=sum(len(partition.shard(m)) for m in range(config.teachers.count)))',
          "tests/test_neighbouring_runs.py::test_what_is_noted_shown_and_logged_does_not_depend_on_a_unit"),
    Plant("a private count on the bar", "hearsay.private.stack",
          "done = Steps(progress, len(todo) * self.shape.steps)",
          "done = Steps(progress, len(todo) * self.shape.steps + sum(len(shards(m)) for m in range(count)))",
          "tests/test_neighbouring_runs.py::test_what_is_noted_shown_and_logged_does_not_depend_on_a_unit"),
    Plant("an exception that quotes a text", PARTITION, "failure = type(error).__name__", "failure = str(error)",
          "tests/test_partition.py::test_a_failing_tokeniser_is_reported_without_the_text"),
    Plant("shards that others may read", "hearsay.private.shards", "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)",
          "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)", "tests/test_partition.py::test_permissions_and_marker"),
)  # fmt: skip
