/** The inputs that a training's configuration names by path, and their comparison with those that a resumed run began with. */
import { basename } from 'node:path';
import { adapterDigests, baseDigests, isFile, moduleDigests, prefixDigest, promptDigests } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { WireTrainingRun } from '../../schemas/training-records.ts';
import { type ChangedInput, changedInputs, inputsIn, type NamedInputs, OtherInputsError } from '../named-inputs.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { roleInputs } from '../roles/role-inputs.ts';
import type { TrainingSetup } from './resolve-training.ts';

export interface ComparedInputs {
  readonly inputs: NamedInputs;
  /** Of each setting whose files have changed. */
  readonly changes: readonly ChangedInput[];
}

/** The module of an environment may change, as its rows may: it may be a correction. */
const CORRECTED = 'environment.id';

/** A checkpoint belongs to its base, so no flag allows another one. */
const BASE = 'model.path (base)';

/**
 * Digests of all inputs that are there. Of rollouts `<bytes>:<digest>`, because their file may grow.
 *
 * @param folder of the base
 */
export async function trainingInputs(wire: TrainingConfigWire, folder: string, before: NamedInputs = {}): Promise<NamedInputs> {
  const { model, rollouts_file: rollouts, environment, source, algorithm, losses, roles, sft, policy } = wire;
  const { args, eval_args: evalArgs } = environment;
  const inputs: Record<string, Record<string, string>> = {};
  for (const [key, digests] of Object.entries({ 'model.path': await promptDigests(folder), [BASE]: await baseDigests(folder) }))
    if (Object.keys(digests).length > 0) inputs[key] = digests;
  if (model.initial_adapter !== null) inputs['model.initial_adapter'] = await adapterDigests(model.initial_adapter);
  const { adapter = null, path = null } = algorithm?.teacher ?? {};
  if (adapter !== null) inputs['algorithm.teacher.adapter'] = await adapterDigests(adapter);
  if (path !== null) inputs['algorithm.teacher.path'] = await baseDigests(path);
  if (rollouts !== null && rollouts !== '-' && isFile(rollouts)) {
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

export interface ComparedOptions {
  readonly setup: Pick<TrainingSetup, 'wire' | 'changes' | 'allowsChanges' | 'allow'>;
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/**
 * Compares a run's record with its inputs now; a run of an earlier version has none to compare. Throws ConfigError if one has changed or is gone, unless the caller allows
 * a change or it is the environment's module.
 */
export async function compareInputs(
  { inputs: before = {} }: Pick<WireTrainingRun, 'inputs'>,
  { setup: { wire, changes, allowsChanges, allow }, variables }: ComparedOptions,
): Promise<ComparedInputs> {
  const inputs = await trainingInputs(wire, modelFolder(wire.model.path, variables), before);
  const isOther = (key: string) =>
    changes.some((change) => key === change.key || key.startsWith(`${change.key}.`) || change.key.startsWith(`${key}.`));
  const changed = changedInputs(before, inputs, isOther);
  const isFixed = ({ key, isGone }: ChangedInput) => key === BASE || isGone;
  const refused = changed.find(isFixed) ?? changed.find(({ key }) => key !== CORRECTED);
  if (refused !== undefined && isFixed(refused)) throw new OtherInputsError(refused.text, null);
  if (refused !== undefined && !allowsChanges) throw new OtherInputsError(refused.text, allow);
  return { inputs, changes: changed };
}
