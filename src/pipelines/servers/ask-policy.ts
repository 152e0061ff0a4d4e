/** Asks the policy of a rollout, as a generation server asks any other model. What its request cannot carry is refused before the first call: nothing is left out silently. */
import type { AgentPolicy } from '../../core/environment.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TextSample } from '../../clients/policy-client.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Fields of a chat request that the policy's model has under another name. */
const SETTINGS: Readonly<Record<string, string>> = {
  seed: 'seed',
  top_k: 'topK',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
};

export interface PolicyQuestion {
  readonly prompt: string;
  /** Empty for none. */
  readonly systemPrompt: string;
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxNewTokens: number | null;
  readonly stop: readonly string[];
  /** Those of `isAskable` are asked for. */
  readonly extra: Fields;
  readonly signal: AbortSignal;
}

/** True for a field of sampling that the policy can be asked for. */
export function isAskable(name: string): boolean {
  return Object.hasOwn(SETTINGS, name);
}

/** Its answer without the stop string that ended it, which is named. Rejects with the SDK's error of an API call. */
export async function askPolicy(policy: AgentPolicy, question: PolicyQuestion): Promise<Pick<TextSample, 'text' | 'finish' | 'stopReason'>> {
  const { prompt, systemPrompt, temperature, topP, maxNewTokens, stop, extra, signal } = question;
  const { content, finishReason, providerMetadata } = await policy.languageModel().doGenerate({
    prompt: [
      ...(systemPrompt === '' ? [] : [{ role: 'system' as const, content: systemPrompt }]),
      { role: 'user', content: [{ type: 'text', text: prompt }] },
    ],
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { topP }),
    ...(maxNewTokens === null ? {} : { maxOutputTokens: maxNewTokens }),
    ...(stop.length === 0 ? {} : { stopSequences: [...stop] }),
    ...Object.fromEntries(Object.entries(extra).flatMap(([name, value]) => (isAskable(name) ? [[SETTINGS[name], value]] : []))),
    abortSignal: signal,
  });
  const text = content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
  const named = Object.values(fieldsOf(providerMetadata)).map((of) => fieldsOf(of)['stopSequence'])[0];
  return { text, finish: finishReason.unified === 'length' ? 'length' : 'stop', stopReason: typeof named === 'string' ? named : null };
}
