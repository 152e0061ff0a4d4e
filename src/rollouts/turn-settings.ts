/** What an agent's request asks of a turn, in the terms of the policy that samples it. What the policy cannot do is refused by the name of its key. */
import { refuseSetting } from '../agents/agent-refusal.ts';
import type { AgentRequest, SettingKeys } from '../agents/agent-request.ts';
import type { PolicyCapabilities } from '../clients/policy-client.ts';
import type { Sampling } from '../core/sampling.ts';
import type { ToolCallFormat, ToolSpec } from '../core/tool-calls.ts';
import type { SampleOptions } from './agent-turns.ts';

export interface TurnSettings {
  readonly sampling: Sampling;
  /** Shown to the policy: also where this turn may call none of them, because other turns of its conversation may. */
  readonly tools: readonly ToolSpec[];
  /** Those that this turn may call. */
  readonly callable: readonly ToolSpec[];
  readonly stop: readonly string[];
  /** The turn ends with its first call. For policies by token ids; a chat API has a field for it. */
  readonly isSingle: boolean;
  /** Text that opens the turn for the policy, so that it must go on with a call. Empty if nothing does. For policies by token ids. */
  readonly prefill: string;
  /** That the agent asks for; null if it asks for none, or the run's settings hold. */
  readonly seed: number | null;
}

/** @param isTrained the run's settings hold: a guided sampler has other log-probs than the policy */
export function turnSettings(
  request: Pick<AgentRequest, 'tools' | 'settings' | 'keys'>,
  {
    sampling,
    capabilities,
    isTrained,
    choice,
  }: Pick<SampleOptions, 'sampling' | 'isTrained' | 'choice'> & { readonly capabilities: PolicyCapabilities },
): TurnSettings {
  const { tools, settings } = request;
  const refuse = (setting: keyof SettingKeys, because: string) => refuseSetting(request, setting, because);
  const { toolChoice = 'auto', parallelToolCalls = true, jsonSchema, logProbs, stop = [] } = settings;
  const { kind, toolCalls: format = null, isEmbedded = false } = capabilities;
  const callable = toolChoice === 'none' ? [] : tools;
  // Without a format for calls no turn of the conversation is shown any.
  const shown = format === null ? callable : tools;
  if (callable.length > 0 && format === null) refuse('tools', 'the policy has no format for calls: its chat template renders none of the known ones');
  if (logProbs !== undefined && kind === 'chat') refuse('logProbs', 'the policy is an API of messages, whose log-probs are not read');
  if (jsonSchema !== undefined && isEmbedded)
    refuse('jsonSchema', 'the embedded engine cannot guide what it samples. Serve the policy with vLLM (-p vllm)');
  if (jsonSchema !== undefined && isTrained)
    refuse('jsonSchema', 'a guided sampler has other log-probs than the policy, so its text cannot be trained on');
  const seed = isTrained || settings.seed === undefined ? null : furtherSeed(settings.seed, choice);
  const wanted = seed === null ? {} : { seed };
  if (kind === 'chat')
    return {
      sampling: withFields(sampling, { ...chatFields(settings, shown), ...wanted }),
      tools: shown,
      callable,
      stop,
      isSingle: false,
      prefill: '',
      seed,
    };
  // Only an answer would be, and never a call.
  if (jsonSchema !== undefined && callable.length > 0)
    refuse(
      'jsonSchema',
      'the answer is guided token by token, so that no tool could be called. Ask for it in a request without tools, or with tool_choice "none"',
    );
  const guided = jsonSchema === undefined ? {} : { structured_outputs: jsonSchema === null ? { json_object: true } : { json: jsonSchema } };
  const spelling = format === 'structured' ? null : format;
  const isSingle = !parallelToolCalls && callable.length > 0;
  const prefill =
    toolChoice === 'auto' || toolChoice === 'none' ? '' : OPENINGS[spelling ?? 'hermes'](toolChoice === 'required' ? null : toolChoice.name);
  return { sampling: withFields(sampling, guided), tools: shown, callable, stop, isSingle, prefill, seed };
}

/** How a call begins; with a name, up to its arguments. */
const OPENINGS: Readonly<Record<ToolCallFormat, (name: string | null) => string>> = {
  hermes: (name) => (name === null ? '<tool_call>\n{"name": "' : `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": `),
  'qwen3-coder': (name) => (name === null ? '<tool_call>\n<function=' : `<tool_call>\n<function=${name}>\n`),
  llama3: (name) => (name === null ? '{"name": "' : `{"name": ${JSON.stringify(name)}, "parameters": `),
};

/** A further answer has another seed. @param before number of answers before it */
export function furtherSeed(seed: number, before: number): number {
  return before === 0 ? seed : Math.imul(seed ^ before, 0x9e3779b1) >>> 0;
}

/** The fields of a chat API, which has words for all of it. */
function chatFields({ toolChoice, parallelToolCalls, jsonSchema }: AgentRequest['settings'], offered: readonly ToolSpec[]): Record<string, unknown> {
  const format = jsonSchema === null ? { type: 'json_object' } : { type: 'json_schema', json_schema: { name: 'answer', schema: jsonSchema } };
  return {
    ...(offered.length === 0 || toolChoice === undefined || toolChoice === 'auto'
      ? {}
      : { tool_choice: typeof toolChoice === 'object' ? { type: 'function', function: toolChoice } : toolChoice }),
    ...(offered.length === 0 || parallelToolCalls === undefined ? {} : { parallel_tool_calls: parallelToolCalls }),
    ...(jsonSchema === undefined ? {} : { response_format: format }),
  };
}

function withFields(sampling: Sampling, fields: Readonly<Record<string, unknown>>): Sampling {
  return Object.keys(fields).length === 0 ? sampling : { ...sampling, extra: { ...sampling.extra, ...fields } };
}
