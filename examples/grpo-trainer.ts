/** A GRPO trainer whose steps the program decides, with the operations of the document of grpo-000 (docs/grpo-trainer.md). Needs only Node. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openGrpoTrainer } from 'vf-search/trainer';

await using trainer = await openGrpoTrainer({
  environment: 'grpo-000',
  preset: 'laptop',
  args: { group_size: 4, update_times: 2, beta: 0.1 },
  settings: { algorithm: { kl: { against: 'old' } } },
});
const { train } = trainer.environment;

// train_step
const { loss, klDiv, avgReward, avgTokens, searchTrajectories, trajectories } = await trainer.trainStep([train.at(0), train.at(1)]);
console.log({ loss, klDiv, avgReward, avgTokens, searchTrajectories, trajectories: trajectories.length });

// The same in its parts: generate_trajectory, compute_advantages, update_policy, recompute_log_probs, compute_kl_divergence.
const group = await trainer.generate([train.at(2)]);
const advantages = trainer.computeAdvantages(group.map(({ reward }) => reward!));
const old = await trainer.recomputeLogProbs(group);
const updated = await trainer.updatePolicy(group, advantages);
const now = await trainer.recomputeLogProbs(group);
console.log({ beta: updated.beta, unchanged: updated.unchanged, kl: trainer.klDivergence(old[0]!, now[0]!) });

// Checkpoints: the adapter, the optimiser's state and the step.
const folder = mkdtempSync(join(tmpdir(), 'grpo-trainer-'));
await trainer.saveCheckpoint(join(folder, 'step-2'));
await trainer.trainStep([train.at(3)]);
await trainer.loadCheckpoint(join(folder, 'step-2'));
console.log(`step ${trainer.step} again`);
if (trainer.step !== 2 || trajectories.length !== 8 || group.length !== 4) process.exitCode = 1;
rmSync(folder, { recursive: true });
