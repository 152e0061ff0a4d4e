/** What an agent's request asks of a turn, in the terms of the policy that samples it. What the policy cannot do is refused by the name of its key. */
import { AgentRefusal } from '../agents/agent-refusal.ts';
import type { AgentRequest } from '../agents/agent-request.ts';
import type { PolicyCapabilities } from '../clients/policy-client.ts';
import type { Sampling } from '../core/sampling.ts';
import type { ToolCallFormat, ToolSpec } from '../core/tool-calls.ts';

export interface TurnSettings {
  readonly sampling: Sampling;
  readonly tools: readonly ToolSpec[];
  readonly stop: readonly string[];
  /** Text that opens the turn for the policy, so that it must go on with a call. Empty if nothing does. For policies by token ids. */
  readonly prefill: string;
}

/** @param isTrained the run's settings hold: a guided sampler has other log-probs than the policy */
export function turnSettings(
  { tools, settings }: Pick<AgentRequest, 'tools' | 'settings'>,
  { sampling, capabilities, isTrained }: { readonly sampling: Sampling; readonly capabilities: PolicyCapabilities; readonly isTrained: boolean },
): TurnSettings {
  const { toolChoice = 'auto', parallelToolCalls = true, jsonSchema, logProbs, stop = [] } = settings;
  const offered = toolChoice === 'none' ? [] : tools;
  const { kind, toolCalls: format = null, isEmbedded = false } = capabilities;
  if (offered.length > 0 && format === null) refuse('tools', 'the policy has no format for calls: its chat template renders none of the known ones');
  if (toolChoice !== 'auto' && toolChoice !== 'none') assertOffered(toolChoice, offered);
  if (logProbs !== undefined && kind === 'chat') refuse('logprobs', 'the policy is an API of messages, whose log-probs are not read');
  if (logProbs !== undefined && logProbs > 0) refuse('top_logprobs', 'only the log-prob of each sampled token is known');
  if (jsonSchema !== undefined && isEmbedded)
    refuse('response_format', 'the embedded engine cannot guide what it samples. Serve the policy with vLLM (-p vllm)');
  if (jsonSchema !== undefined && isTrained)
    refuse('response_format', 'a guided sampler has other log-probs than the policy, so its text cannot be trained on');
  if (kind === 'chat') return { sampling: withFields(sampling, chatFields(settings, offered)), tools: offered, stop, prefill: '' };
  const guided = jsonSchema === undefined ? {} : { structured_outputs: jsonSchema === null ? { json_object: true } : { json: jsonSchema } };
  const spelling = format === 'structured' ? null : format;
  const single =
    parallelToolCalls || offered.length === 0
      ? []
      : [CLOSINGS[spelling ?? 'llama3'] ?? refuse('parallel_tool_calls', 'the format of its calls has no closing tag')];
  const prefill =
    toolChoice === 'auto' || toolChoice === 'none' ? '' : OPENINGS[spelling ?? 'hermes'](toolChoice === 'required' ? null : toolChoice.name);
  return { sampling: withFields(sampling, guided), tools: offered, stop: [...stop, ...single], prefill };
}

function refuse(param: string, why: string): never {
  throw new AgentRefusal(400, param, `${param} cannot be honoured: ${why}.`);
}

function assertOffered(choice: 'required' | { readonly name: string }, tools: readonly ToolSpec[]): void {
  if (choice === 'required' ? tools.length > 0 : tools.some(({ name }) => name === choice.name)) return;
  const text = choice === 'required' ? 'the request offers no tool' : `the request offers no tool ${choice.name}`;
  throw new AgentRefusal(400, 'tool_choice', `tool_choice cannot be honoured: ${text}.`);
}

/** A turn that calls one tool at a time ends with its first call. */
const CLOSINGS: Readonly<Record<ToolCallFormat, string | null>> = { hermes: '</tool_call>', 'qwen3-coder': '</tool_call>', llama3: null };

/** How a call begins; with a name, up to its arguments. */
const OPENINGS: Readonly<Record<ToolCallFormat, (name: string | null) => string>> = {
  hermes: (name) => (name === null ? '<tool_call>\n{"name": "' : `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": `),
  'qwen3-coder': (name) => (name === null ? '<tool_call>\n<function=' : `<tool_call>\n<function=${name}>\n`),
  llama3: (name) => (name === null ? '{"name": "' : `{"name": ${JSON.stringify(name)}, "parameters": `),
};

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
