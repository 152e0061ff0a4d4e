/** Asks the model of a role for an agent, which names the role as its model. Roles give text: they are offered no tools. */
import { AgentRefusal, refuseSetting } from '../agents/agent-refusal.ts';
import type { AgentRequest, AgentTurn } from '../agents/agent-request.ts';
import { thrownText } from '../core/errors.ts';
import type { Model } from '../core/model.ts';
import type { Sampling } from '../core/sampling.ts';

/** New tokens of an answer whose request sets no limit. */
const MAX_TOKENS = 1024;

export async function askRole(model: Model, request: AgentRequest, signal: AbortSignal): Promise<readonly AgentTurn[]> {
  const { messages, tools, settings, model: role } = request;
  const { maxTokens = MAX_TOKENS, stop = [], n = 1, temperature, topP, jsonSchema, logProbs, seed, extra } = settings;
  const unheard = { tools: tools.length > 0, logProbs: logProbs !== undefined, jsonSchema: jsonSchema === null, seed: seed !== undefined };
  for (const [setting, isAsked] of Object.entries(unheard))
    if (isAsked) refuseSetting(request, setting as keyof typeof unheard, `${role} is a role of the environment. Leave it out`);
  const sampling: Partial<Sampling> = {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(extra === undefined ? {} : { extra }),
  };
  const once = () =>
    model.generate(messages, {
      maxTokens,
      stop,
      ...(Object.keys(sampling).length === 0 ? {} : { sampling }),
      ...(jsonSchema === undefined || jsonSchema === null ? {} : { responseSchema: jsonSchema }),
      signal,
    });
  try {
    const replies = await Promise.all(Array.from({ length: n }, once));
    return replies.map(({ text, reasoning, finish, usage }) => ({
      content: text,
      ...(reasoning === undefined ? {} : { reasoning }),
      toolCalls: [],
      finish,
      usage,
    }));
  } catch (error) {
    throw new AgentRefusal(502, null, `The model of the role ${role} failed: ${thrownText(error)}`);
  }
}
