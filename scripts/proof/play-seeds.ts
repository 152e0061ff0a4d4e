/** Runs an environment's laptop preset for a proof, as a new user would: once per seed, in further worlds, with other settings, and with negated advantages. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SeedRun } from './judge-seeds.ts';
import type { ProofOptions } from './proof-options.ts';
import { runRecipe } from './run-command.ts';
import type { SeedProof } from './seed-proofs.ts';
import { setFlags, trainAlone } from './train-once.ts';

/** Throws if a run fails. */
export async function playSeeds(
  proof: SeedProof,
  { quick, seeds, settings: given, runs: output }: Pick<ProofOptions, 'quick' | 'seeds' | 'settings' | 'runs'>,
): Promise<SeedRun[]> {
  const proven: SeedRun[] = [];
  const play = async (kind: SeedRun['kind'], label: string, seed: number, settings: readonly string[], end?: number): Promise<void> => {
    const sets = setFlags([...(quick ? [`steps=${proof.quickSteps}`] : []), ...settings, ...given]);
    const args = [proof.environment, '--preset', 'laptop', '--seed', String(seed), '-o', output, ...sets];
    const run = await trainAlone({ label: `${proof.environment}, ${label}`, isControl: kind === 'control', args });
    proven.push({ ...run, proof, kind, end: end ?? null });
  };
  for (const seed of seeds) await play('laptop', `seed ${seed}`, seed, []);
  // The short proofs have one control, that of `laptop`.
  if (quick) return proven;
  for (const world of proof.worlds) await play('laptop', `world ${world}`, seeds[0]!, proof.world.settings(makeWorld(proof, world)));
  for (const { label, settings, end } of proof.variants) await play('variant', label, seeds[0]!, settings, end);
  // A policy that always fails gives groups without differences: steps without an update, which would stop the run before its last evaluation.
  await play('control', 'negated advantages', seeds[0]!, ['algorithm.negate_advantages=true', `guards.max_skipped_steps=${proof.steps}`]);
  return proven;
}

function makeWorld({ world: { module } }: SeedProof, seed: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'vf-world-'));
  runRecipe(module, ['--out', folder, '--seed', String(seed)]);
  return folder;
}
