/** The inputs that an evaluation names by path, and their comparison with those that a resumed run began with. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { recordedInputs } from '../../core/environment-version.ts';
import { readMetadata } from '../../evaluate/run-records.ts';
import { adapterDigests, baseDigests, moduleDigests, promptDigests } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import type { WireMetadata } from '../../schemas/results.ts';
import { changedInputs, inputsIn, type NamedInputs, OtherInputsError } from '../named-inputs.ts';
import { embeddedModel } from '../policy/embedded-model.ts';
import type { EvaluationContext, OpenedEvaluation } from './open-evaluation.ts';

/** The module of an environment may change, as its rows may: it may be a correction. */
const CORRECTED = 'env_id';

/** Of a model that plays in this process (`model`), of files that the environment's arguments name, and of an environment's own module (`env_id`). */
export async function inputsOf(
  { target, request, environmentArgs }: Pick<OpenedEvaluation, 'target' | 'request' | 'environmentArgs'>,
  context: EvaluationContext,
): Promise<NamedInputs> {
  const { client, loaded } = context;
  const model = client === undefined && target.kind === 'embedded' ? embeddedModel(target.model, context) : null;
  const found = loaded === undefined ? request.environment : null;
  const ofModel =
    model === null
      ? {}
      : { ...(await promptDigests(model.directory)), ...(model.adapter === null ? {} : await adapterDigests(model.adapter.directory)) };
  const base = model === null ? {} : await baseDigests(model.directory);
  return {
    ...(Object.keys(ofModel).length === 0 ? {} : { model: ofModel }),
    ...(Object.keys(base).length === 0 ? {} : { 'model (base)': base }),
    ...(await environmentInputs(found, environmentArgs, request.environmentsDir)),
  };
}

/** Of files that the arguments name, and of the environment's own module, if it has one. @param environment id or path; null for one that the caller loaded */
export async function environmentInputs(environment: string | null, args: unknown, environmentsDir?: string): Promise<NamedInputs> {
  const found = environment === null ? null : environmentIfFound(environment, environmentsDir === undefined ? {} : { environmentsDir });
  return {
    ...(await inputsIn(args, 'env_args')),
    ...(found === null || found.isBundled ? {} : { [CORRECTED]: await moduleDigests(found.entry) }),
  };
}

/** The module that gave the scores on file; if several versions of it did, one that is not the present one. */
function scoredBy(metadata: WireMetadata, now: NamedInputs[string] = {}): NamedInputs {
  const modules = (recordedInputs(metadata) as (NamedInputs | undefined)[])
    .map((inputs) => inputs?.[CORRECTED])
    .filter((files) => files !== undefined);
  const module = modules.find((files) => canonicalJson(files) !== canonicalJson(now)) ?? modules[0];
  return module === undefined ? {} : { [CORRECTED]: module };
}

/**
 * Throws ConfigError if an input has other contents than when the run began, unless the request allows it. It says so of what it lets pass, and of the environment's module,
 * which may have been corrected.
 */
export async function compareInputs(
  directory: string,
  inputs: NamedInputs,
  {
    request: { allowChanges = false },
    environmentArgs,
    names,
    warn,
  }: Pick<OpenedEvaluation, 'request' | 'environmentArgs'> & Pick<EvaluationContext, 'names' | 'warn'>,
): Promise<void> {
  const metadata = await readMetadata(directory);
  const { sessions, env_args: args } = metadata;
  const played = sessions.findLast((session) => session.inputs !== undefined)?.inputs ?? {};
  const before = { ...played, ...scoredBy(metadata, inputs[CORRECTED]) };
  // Another model, or other arguments, are refused with the settings.
  const isSame = canonicalJson(args) === canonicalJson(environmentArgs);
  const changed = changedInputs(before, inputs, (key) => !(key.startsWith('env_args') && isSame));
  const gone = changed.find(({ isGone }) => isGone);
  if (gone !== undefined) throw new OtherInputsError(gone.text, null);
  const refused = changed.find(({ key }) => key !== CORRECTED);
  if (refused !== undefined && !allowChanges) throw new OtherInputsError(refused.text, `add ${names.name('allowChanges')}`);
  for (const { key, text } of changed) {
    const what = key === CORRECTED ? `the module of the environment has changed since ${directory} began` : text;
    warn(`${what}; its rollouts on file keep the scores that they have`);
  }
}
