/** A gateway with one session that answers from a script, and what it was asked. */
import type { AgentRequest, AgentTurn } from '../../../src/agents/agent-request.ts';
import { AgentRefusal } from '../../../src/agents/agent-refusal.ts';
import type { GatewayAddress } from '../../../src/agents/agent-gateway.ts';
import { Gateway } from '../../../src/server/gateway/gateway.ts';

export interface ScriptedGateway extends AsyncDisposable, Pick<GatewayAddress, 'baseURL' | 'apiKey'> {
  readonly gateway: Gateway;
  readonly asked: readonly AgentRequest[];
  /** Failures of the gateway itself. */
  readonly failures: readonly unknown[];
}

export type Script = (request: AgentRequest, index: number, signal: AbortSignal) => AgentTurn | readonly AgentTurn[] | Promise<AgentTurn>;

export async function scriptedGateway(script: Script): Promise<ScriptedGateway> {
  const asked: AgentRequest[] = [];
  const failures: unknown[] = [];
  const gateway = await Gateway.open({ onFailure: (error) => failures.push(error) });
  const { baseURL, apiKey } = gateway.add({
    model: 'policy',
    async ask(request, signal) {
      asked.push(request);
      const turns = await script(request, asked.length - 1, signal);
      return Array.isArray(turns) ? (turns as readonly AgentTurn[]) : [turns as AgentTurn];
    },
    count: async ({ messages }) => {
      if (messages.length > 1) throw new AgentRefusal(400, 'messages', 'Too many messages.');
      return 7;
    },
  });
  return { gateway, baseURL, apiKey, asked, failures, [Symbol.asyncDispose]: () => gateway.close() };
}

export function turnOf(turn: Partial<AgentTurn>): AgentTurn {
  return { content: '', toolCalls: [], finish: 'stop', usage: { promptTokens: 11, completionTokens: 3, cachedTokens: null }, ...turn };
}

/** Two calls with a text and thoughts, in arguments as a model writes them, then a text. */
export const LOOP: Script = ({ messages }) =>
  messages.some(({ role }) => role === 'tool')
    ? turnOf({ content: 'It is grey.\n', reasoning: 'Both agree.' })
    : turnOf({
        content: 'Let me look.\n\n',
        reasoning: 'Which bird?\nA heron.',
        toolCalls: [
          { id: 'call00001', name: 'find', arguments: '{"query": "heron \\u2609"}' },
          { id: 'call00002', name: 'find', arguments: '{"query": "grey"}' },
        ],
      });
