/**
 * A gateway of a few sessions, each of which answers with its name and with what it was told. Asked for the model `never` it does not answer; `end` ends the session. Writes their
 * addresses as one line of JSON.
 */
import type { GatewayAddress } from '../../src/agents/agent-gateway.ts';
import type { AgentRequest } from '../../src/agents/agent-request.ts';
import { untilAborted } from '../../src/core/abort.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';

const gateway = await Gateway.open({ onFailure: (error) => process.stderr.write(`failure ${String(error)}\n`) });
const add = (name: string): GatewayAddress => {
  const address = gateway.add({
    model: name,
    async ask({ messages, model }: AgentRequest, signal: AbortSignal) {
      if (model === 'never') return untilAborted(new Promise<never>(() => {}), signal);
      if (model === 'end') address.close();
      const usage = { promptTokens: messages.length, completionTokens: 1, cachedTokens: null };
      return [{ content: `${name} heard ${messages.length}`, toolCalls: [], finish: 'stop', usage }];
    },
    count: async ({ messages }) => messages.length,
  });
  return address;
};
const sessions = ['one', 'two', 'three', ...Array.from({ length: 20 }, (_, i) => `further ${i}`)].map(add);
process.stdout.write(`${JSON.stringify({ url: gateway.url, sessions })}\n`);
