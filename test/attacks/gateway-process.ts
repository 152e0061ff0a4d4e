/** A gateway of two sessions, each of which answers with its name and with what it was told. Writes their addresses as one line of JSON. */
import type { AgentRequest } from '../../src/agents/agent-request.ts';
import { untilAborted } from '../../src/core/abort.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';

const gateway = await Gateway.open({ onFailure: (error) => process.stderr.write(`failure ${String(error)}\n`) });
const add = (name: string) =>
  gateway.add({
    model: name,
    async ask({ messages, model }: AgentRequest, signal: AbortSignal) {
      if (model === 'never') return untilAborted(new Promise<never>(() => {}), signal);
      const usage = { promptTokens: messages.length, completionTokens: 1, cachedTokens: null };
      return [{ content: `${name} heard ${messages.length}`, toolCalls: [], finish: 'stop', usage }];
    },
    count: async ({ messages }) => messages.length,
  });
const [one, two] = [add('one'), add('two')];
process.stdout.write(`${JSON.stringify({ url: gateway.url, sessions: [one, two] })}\n`);
