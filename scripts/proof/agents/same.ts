/**
 * One loop of tools twice: as a `ToolEnv`, and as an agent that a user wrote over Chat Completions. Both end at a call that is not JSON, and answer one that fits no tool in the
 * same words, so that every text that the policy reads is the same.
 */
import { OpenAI } from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { contentText, Dataset, defineTool, type Environment, type EnvResponse, type StepContext, ToolEnv } from 'vf-search';
import { LIMITS, MAX_TURNS, openStrangeWorld, SEARCH, strangeAgent, type StrangeAgentRow, type Surroundings, TASK } from './strange-agent.ts';

const REFUSAL = 'Error: this call fits no tool.';

class EndsAtMalformedCalls extends ToolEnv<StrangeAgentRow> {
  protected override async envResponse(...[kept, state, context]: Parameters<ToolEnv['envResponse']>): Promise<EnvResponse> {
    if (isMalformed(context)) return { done: 'no_tools_called' };
    const response = await super.envResponse(kept, state, context);
    const refused = response.messages?.map((message) =>
      contentText(message.content).startsWith('Error: ') ? { ...message, content: REFUSAL } : message,
    );
    return refused === undefined ? response : { messages: refused };
  }
}

function isMalformed({ toolCalls }: StepContext): boolean {
  return toolCalls.some((call) => 'problem' in call);
}

async function asTools(args: { readonly world: string }): Promise<Environment<StrangeAgentRow>> {
  const { train, held, rubric, search } = await openStrangeWorld(args);
  const prompted = (rows: Dataset<StrangeAgentRow>) =>
    new Dataset(
      rows.name,
      Array.from(rows, (row) => ({ ...row, prompt: [{ role: 'system' as const, content: TASK }, ...row.prompt] })),
    );
  const tool = defineTool({ ...SEARCH, execute: ({ query }, { signal }) => search(String(query), signal) });
  const play = { calls: 'native', maxTurns: MAX_TURNS, limits: LIMITS } as const;
  return new EndsAtMalformedCalls({ id: 'same', train: prompted(train), eval: prompted(held), rubric, tools: [tool], ...play });
}

async function answer({ row, policy, search, signal }: Surroundings): Promise<string> {
  const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey });
  const messages: ChatCompletionMessageParam[] = [
    { role: 'system', content: TASK },
    { role: 'user', content: row.question },
  ];
  const tools = [{ type: 'function' as const, function: SEARCH }];
  for (let turn = 1; ; turn++) {
    const { choices } = await client.chat.completions.create({ model: policy.name, messages, tools }, { signal });
    const { message } = choices[0]!;
    const calls = (message.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call] : []));
    const asked = calls.map(({ function: called }) => queryOf(called));
    if (calls.length === 0 || asked.includes(null) || turn === MAX_TURNS) return message.content ?? '';
    messages.push(message);
    for (const [i, { id }] of calls.entries()) {
      const query = asked[i]!.query;
      messages.push({ role: 'tool', tool_call_id: id, content: typeof query === 'string' ? await search(query) : REFUSAL });
    }
  }
}

/** Null for arguments that are no JSON; no query for a call that fits no tool. */
function queryOf({ name, arguments: text }: { readonly name: string; readonly arguments: string }): { readonly query?: string } | null {
  try {
    const { query, ...others } = JSON.parse(text) as { readonly query?: unknown };
    return name === SEARCH.name && typeof query === 'string' && Object.keys(others).length === 0 ? { query } : {};
  } catch {
    return null;
  }
}

export const loadEnvironment = (args: { readonly world: string; readonly as: 'tools' | 'agent' }): Promise<Environment<StrangeAgentRow>> =>
  args.as === 'tools' ? asTools(args) : strangeAgent('same', args, answer);
