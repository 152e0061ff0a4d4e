/** The inputs that a training's configuration names by path, and their comparison with those that a resumed run began with. */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { modelPath } from '../../data/bundled-models.ts';
import { adapterDigests, moduleDigests, prefixDigest, promptDigests } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { WireTrainingRun } from '../../schemas/training-records.ts';
import { changedInputs, inputsIn, type NamedInputs, otherInputsError } from '../named-inputs.ts';
import { roleInputs } from '../roles/role-inputs.ts';

export interface ComparedInputs {
  readonly inputs: NamedInputs;
  /** One line for each setting whose files have changed. */
  readonly changes: readonly string[];
}

/** The module of an environment may change, as its rows may: it may be a correction. */
const CORRECTED = 'environment.id';

/** Digests of all inputs that are there; a missing one is reported by what opens it. Of rollouts `<bytes>:<digest>`, because their file may grow. */
export async function trainingInputs(wire: TrainingConfigWire, before: NamedInputs = {}): Promise<NamedInputs> {
  const { model, rollouts_file: rollouts, environment, source, algorithm, losses, roles, sft, policy } = wire;
  const { args, eval_args: evalArgs } = environment;
  const inputs: Record<string, Record<string, string>> = {};
  const prompts = await promptDigests(modelPath(model.path));
  if (Object.keys(prompts).length > 0) inputs['model.path'] = prompts;
  if (model.initial_adapter !== null) inputs['model.initial_adapter'] = await adapterDigests(model.initial_adapter);
  if (rollouts !== null && rollouts !== '-' && existsSync(rollouts)) {
    const name = basename(rollouts);
    const [bytes] = (before['rollouts_file']?.[name] ?? '').split(':');
    inputs['rollouts_file'] = { [name]: await prefixDigest(rollouts, bytes === '' ? Infinity : Number(bytes)) };
  }
  const settings = {
    source,
    algorithm,
    losses,
    'sft.images': sft?.images,
    'policy.launch.args': policy?.launch?.args,
    'environment.args': args,
    'environment.eval_args': evalArgs,
  };
  for (const [key, value] of Object.entries(settings)) Object.assign(inputs, await inputsIn(value, key));
  Object.assign(inputs, await roleInputs(roles));
  const found = environmentIfFound(environment.id);
  if (found !== null && !found.isBundled) inputs[CORRECTED] = await moduleDigests(found.entry);
  return inputs;
}

/**
 * Compares a run's record with its inputs now; a run of an earlier version has none to compare. Throws ConfigError if one has changed, unless the caller allows it or
 * it is the environment's module.
 * @param allows null if the caller has no flag for it
 */
export async function compareInputs(
  { inputs: before = {} }: Pick<WireTrainingRun, 'inputs'>,
  { wire, allows }: { readonly wire: TrainingConfigWire; readonly allows: boolean | null },
): Promise<ComparedInputs> {
  const inputs = await trainingInputs(wire, before);
  const changed = changedInputs(before, inputs);
  const refused = changed.find(({ key }) => key !== CORRECTED);
  if (refused !== undefined && allows !== true) throw otherInputsError(refused.text, allows === false ? 'add --allow-changes' : null);
  return { inputs, changes: changed.map(({ text }) => text) };
}
