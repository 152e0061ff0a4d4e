/** The inputs that an evaluation names by path, and their comparison with those that a resumed run began with. */
import { readMetadata } from '../../evaluate/run-records.ts';
import { adapterDigests, moduleDigests, promptDigests } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import { changedInputs, inputsIn, type NamedInputs, otherInputsError } from '../named-inputs.ts';
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
  const places = request.environmentsDir === undefined ? {} : { environmentsDir: request.environmentsDir };
  const found = loaded === undefined ? environmentIfFound(request.environment, places) : null;
  const ofModel =
    model === null
      ? {}
      : { ...(await promptDigests(model.directory)), ...(model.adapter === null ? {} : await adapterDigests(model.adapter.directory)) };
  return {
    ...(Object.keys(ofModel).length === 0 ? {} : { model: ofModel }),
    ...(await inputsIn(environmentArgs, 'env_args')),
    ...(found === null || found.isBundled ? {} : { [CORRECTED]: await moduleDigests(found.entry) }),
  };
}

/**
 * Throws ConfigError if an input has other contents than when the run began, unless the request allows it. It says so of what it lets pass, and of the environment's module,
 * which may have been corrected.
 */
export async function compareInputs(
  directory: string,
  inputs: NamedInputs,
  { request: { allowChanges = false }, names, warn }: Pick<OpenedEvaluation, 'request'> & Pick<EvaluationContext, 'names' | 'warn'>,
): Promise<void> {
  const { sessions } = await readMetadata(directory);
  const before = sessions.findLast((session) => session.inputs !== undefined)?.inputs ?? {};
  const changed = changedInputs(before, inputs);
  const refused = changed.find(({ key }) => key !== CORRECTED);
  if (refused !== undefined && !allowChanges) throw otherInputsError(refused.text, `add ${names.name('allowChanges')}`);
  for (const { key, text } of changed) {
    const what = key === CORRECTED ? `the module of the environment has changed since ${directory} began` : text;
    warn(`${what}; its rollouts on file keep the scores that they have`);
  }
}
