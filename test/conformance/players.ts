/** Plays a recording as the product asks chat APIs: as the policy of a rollout, as the model of a role, as the generator of a pipeline. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { policyFromLanguageModel } from '../../src/clients/language-model-policy.ts';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { VfError } from '../../src/core/errors.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { Rubric } from '../../src/core/rubric.ts';
import { defineTool } from '../../src/core/tool.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';
import { clientModel } from '../../src/models/client-model.ts';
import { openRoleModels } from '../../src/models/role-models.ts';
import { generationServer } from '../../src/pipelines/servers/generation-server.ts';
import { openChatApi } from '../../src/registry/open-chat-api.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts } from '../../src/rollouts/run-rollouts.ts';
import { callContext } from '../pipelines/servers/call-context.ts';
import { type Body, recordedServer } from './recorded-server.ts';
import type { Play } from './recording.ts';

const { signal } = new AbortController();
const MAX_TOKENS = 64;
/** Attempts after the first. */
export const RETRIES = 1;

type Outcome<T> = ({ readonly value: T } | { readonly error: VfError }) & { readonly bodies: readonly Body[] };

const api = (url: string, maxRetries: number, stream: 'auto' | true = 'auto') =>
  openChatApi({ baseUrls: [`${url}/v1`], model: 'm', apiKey: null, keyVariable: null, maxRetries, baseDelayMs: 1, stream });

/** The same API through the AI SDK's provider for any of its kind. */
export async function languageModel(url: string, maxRetries: number, stream: 'auto' | true = 'auto'): Promise<PolicyClient> {
  const model = createOpenAICompatible({ name: 'recorded', baseURL: `${url}/v1`, includeUsage: true })('m');
  return policyFromLanguageModel(model, { maxRetries, baseDelayMs: 1, stream });
}

/** The rollout of an environment that has the play's stop strings or tools, with as many turns as it expects. `stream`: whether completions are asked for as streams. */
export async function playAsPolicy(
  play: Play,
  { stream, open = api }: { readonly stream: 'auto' | true; readonly open?: typeof api | typeof languageModel },
): Promise<{ readonly rollout: Rollout; readonly bodies: readonly Body[] }> {
  await using server = await recordedServer(play);
  const client = await open(server.url, RETRIES, stream);
  const environment = play.tools === undefined ? new StopsEnv(play) : toolEnvironment(play);
  const { temperature = null, topP = null } = play.sampling ?? {};
  try {
    const run = runRollouts([{ row: ROW, indices: [0] }], {
      environment,
      client,
      sampling: { temperature, topP },
      maxTokens: MAX_TOKENS,
      maxConcurrent: 1,
      timeoutMs: null,
      seed: 0,
      signal,
    });
    for await (const { rollouts } of run) return { rollout: rollouts[0]!, bodies: server.bodies };
    throw new Error('The run gave no rollout');
  } finally {
    await client.close();
  }
}

export interface RoleReply {
  readonly text: string;
  readonly reasoning: string | undefined;
  readonly finish: 'stop' | 'length';
}

export async function playAsRole(play: Play): Promise<Outcome<RoleReply>> {
  await using server = await recordedServer(play);
  const client = await api(server.url, 0);
  const model = clientModel(() => client, { name: 'm', isPolicy: false });
  await using roles = await openRoleModels({ judge: { model, maxRetries: RETRIES, baseDelayMs: 1 } });
  const { models, asked } = roles.forRollout('0/0');
  const { stop = [], sampling = {} } = play;
  try {
    const reply = await models['judge']!.generate(PROMPT, { maxTokens: MAX_TOKENS, stop, sampling, signal });
    return { value: { text: reply.text, reasoning: asked[0]!.reasoning, finish: reply.finish }, bodies: server.bodies };
  } catch (error) {
    return { error: error as VfError, bodies: server.bodies };
  } finally {
    await client.close();
  }
}

/** `keepsStop`: the file asks for the stop string in the answer, as upstream's does. */
export async function playAsPipeline(play: Play, { keepsStop }: { readonly keepsStop: boolean }): Promise<Outcome<string>> {
  await using server = await recordedServer(play);
  const { temperature = null, topP = null } = play.sampling ?? {};
  const stops = keepsStop ? { extra_body: { include_stop_str_in_output: true } } : {};
  const sampling = { temperature, top_p: topP, max_tokens: MAX_TOKENS, stop: [...(play.stop ?? [])], ...stops };
  const parameters = { base_url: `${server.url}/v1`, model_name: 'm', sampling_params: sampling };
  const generation = generationServer('2.0', {
    chat: ({ retries }) => api(server.url, retries),
    search: () => Promise.reject(new Error('Nothing searches here')),
  });
  const context = callContext({ ...parameters, retries: RETRIES });
  try {
    const { ans_ls: answers } = await generation.tools['generate']!.run({ prompt_ls: ['Who?'], ...parameters }, context);
    const failure = context.failures.get(0);
    if (failure !== undefined) return { error: failure as VfError, bodies: server.bodies };
    return { value: (answers as string[])[0]!, bodies: server.bodies };
  } catch (error) {
    return { error: error as VfError, bodies: server.bodies };
  } finally {
    await generation.close?.();
  }
}

const PROMPT = [{ role: 'user', content: 'Who?' }] as const;
const ROW: Row = { exampleId: 0, prompt: PROMPT };
const RUBRIC = new Rubric({ funcs: [] });

/** Answers every turn but the last. */
class StopsEnv extends MultiTurnEnv {
  constructor({ stop = [], expect: { turns = [] } }: Play) {
    const maxTurns = Math.max(1, turns.length);
    super({ id: 'stops', eval: new Dataset('rows', [ROW]), rubric: RUBRIC, stop, maxTurns });
  }

  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(): EnvResponse {
    return { observation: 'Paris is the capital of France.' };
  }
}

function toolEnvironment({ expect: { turns = [] } }: Play): ToolEnv {
  const search = defineTool({
    name: 'search',
    description: 'Searches.',
    parameters: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
    execute: () => 'Paris is the capital of France.',
  });
  return new ToolEnv({
    id: 'tools',
    eval: new Dataset('rows', [ROW]),
    rubric: RUBRIC,
    tools: [search],
    calls: 'native',
    maxTurns: Math.max(1, turns.length),
  });
}
