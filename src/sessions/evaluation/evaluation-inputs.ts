/** Digests of the files that an evaluation names by path: under the same path there may be others when it is resumed. */
import { ConfigError } from '../../core/errors.ts';
import { readMetadata } from '../../evaluate/run-records.ts';
import { adapterDigests, moduleDigests } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import { embeddedModel } from '../policy/embedded-model.ts';
import type { EvaluationContext, OpenedEvaluation } from './open-evaluation.ts';

type Inputs = Readonly<Record<string, Record<string, string>>>;

/** Of an adapter that plays in this process (`model`), and of an environment's own module (`env_id`). */
export async function inputsOf({ target, request }: Pick<OpenedEvaluation, 'target' | 'request'>, context: EvaluationContext): Promise<Inputs> {
  const { client, loaded } = context;
  const adapter = client === undefined && target.kind === 'embedded' ? embeddedModel(target.model, context).adapter : null;
  const places = request.environmentsDir === undefined ? {} : { environmentsDir: request.environmentsDir };
  const found = loaded === undefined ? environmentIfFound(request.environment, places) : null;
  return {
    ...(adapter === null ? {} : { model: await adapterDigests(adapter.directory) }),
    ...(found === null || found.isBundled ? {} : { env_id: await moduleDigests(found.entry) }),
  };
}

/** Throws ConfigError if another adapter is under the path that the run played; says so of the environment's module, which may have been corrected. */
export async function compareInputs(directory: string, inputs: Inputs, { warn }: Pick<EvaluationContext, 'warn'>): Promise<void> {
  const { sessions } = await readMetadata(directory);
  const before = sessions.findLast((session) => session.inputs !== undefined)?.inputs ?? {};
  const hasChanged = (key: string) =>
    before[key] !== undefined && inputs[key] !== undefined && JSON.stringify(before[key]) !== JSON.stringify(inputs[key]);
  if (hasChanged('model'))
    throw new ConfigError(
      `${directory} cannot be resumed: its adapter has other contents than when the run began. Restore the adapter, or start a new run.`,
    );
  if (hasChanged('env_id'))
    warn(`the module of the environment has changed since ${directory} began; its rollouts on file keep the scores that they have`);
}
