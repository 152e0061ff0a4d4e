/** The policy without a model: the environment's own, or the extractive baseline. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Baseline } from '../../core/environment.ts';
import type { OpenedPolicy, OpenPolicyOptions } from './open-policy.ts';

/** `asked`: the user named it, so no notice explains why it plays. */
export async function openBaseline(
  asked: boolean,
  { seed, names, environment: { turnFormat, baseline }, sampling = {} }: OpenPolicyOptions,
): Promise<OpenedPolicy> {
  const kind = turnFormat === 'chat' ? 'chat' : 'tokens';
  const { client, how } = baseline === undefined ? await extractiveBaseline(seed, kind) : await ownBaseline(baseline, kind);
  const [field] = Object.keys(sampling.extra ?? {});
  if (field !== undefined)
    throw new ConfigError(
      `${field} in ${names.name('sampling')} has no effect: ${client.name} plays, which is not a model. Name a model, or leave it out.`,
    );
  const notice = [
    `No model is configured, so the built-in ${how}`,
    `To evaluate a model: ${names.given({ provider: 'embedded' })} (a small one in this process), ${names.given({ provider: 'vllm', model: 'NAME' })} (a server on this machine), ${names.given({ baseUrl: 'URL', apiKeyVar: 'KEY_VARIABLE', model: 'NAME' })} (any OpenAI-compatible API), or VF_BASE_URL in .env.`,
  ];
  return {
    client,
    model: client.name,
    kind: 'baseline',
    baseUrl: null,
    description: `${client.name} (built in, no model; ${kind === 'chat' ? 'chat messages, bytes as tokens' : 'bytes as tokens'})`,
    notices: asked ? [] : notice,
    [Symbol.asyncDispose]: () => client.close(),
  };
}

type OpenedBaseline = { readonly client: PolicyClient; readonly how: string };

async function extractiveBaseline(seed: number, kind: 'chat' | 'tokens'): Promise<OpenedBaseline> {
  const { ExtractiveClient } = await import('../../clients/extractive.ts');
  const how = 'extractive baseline plays: it searches for the question and answers with a span of the passages that it finds.';
  return { client: new ExtractiveClient({ seed, kind }), how };
}

async function ownBaseline(baseline: Baseline, kind: 'chat' | 'tokens'): Promise<OpenedBaseline> {
  const { ScriptedClient } = await import('../../clients/scripted.ts');
  // Its log-probs are 0, because the baseline is certain of its text.
  const client = new ScriptedClient({ name: baseline.name, kind, turns: ({ messages }) => baseline.reply(messages), logProb: 0 });
  return { client, how: `baseline plays: ${baseline.description}.` };
}
