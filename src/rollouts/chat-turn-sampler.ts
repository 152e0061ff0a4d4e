/** Samples the turns of an agent over an API of messages. There are no tokens; what the policy said before goes back to its server as the server gave it. */
import { AgentRefusal } from '../agents/agent-refusal.ts';
import type { ChatLease } from '../clients/policy-client.ts';
import { PolicyError } from '../core/errors.ts';
import type { Message, ToolCall } from '../core/message.ts';
import { leftToolCalls } from '../core/left-tool-calls.ts';
import { isToolCall, readToolCall, type ToolCallAttempt } from '../core/tool-calls.ts';
import { agentCallId, agentCalls, type AgentNode, pathOf, type SampledAgentTurn, type SampleOptions, said, type TurnSampler } from './agent-turns.ts';
import { assistantMessage } from './conversation-messages.ts';
import { turnSettings } from './turn-settings.ts';
import type { TurnSamplerOptions } from './token-turn-sampler.ts';

export class ChatTurnSampler implements TurnSampler {
  readonly #options: TurnSamplerOptions<ChatLease>;
  #lease: Promise<ChatLease> | null = null;

  constructor(options: TurnSamplerOptions<ChatLease>) {
    this.#options = options;
  }

  async sample(place: AgentNode, options: SampleOptions): Promise<SampledAgentTurn> {
    const { ordinal, mostTokens, signal } = options;
    const { capabilities, limits, maxTokens } = this.#options;
    const { request } = place.turn!;
    const { sampling, tools, callable, stop } = turnSettings(request, { ...options, capabilities });
    const path = pathOf(place.parent!);
    const most = Math.min(maxTokens ?? limits.responseTokens * (capabilities.lengthScale ?? 1), mostTokens, request.settings.maxTokens ?? Infinity);
    const maxNewTokens = Number.isFinite(most) ? most : null;
    // One is enough: over an API of messages no prompt need extend another.
    const lease = await (this.#lease ??= this.#options.lease());
    const prompt = path.map(({ message, turn }) => message ?? turn!.answer!.played.message);
    const sample = await lease.generate({ prompt, sampling, maxNewTokens, stop, ...(tools.length === 0 ? {} : { tools }), signal });
    const { text, reasoning, reasoningTokens, finish, stopReason, usage, stopIsGuess = false, stopWasIgnored = false } = sample;
    // A server may parse a call although the turn must have none; its text is part of the text.
    const { toolCalls: parsed = [] } = request.settings.toolChoice === 'none' ? {} : sample;
    const odd = parsed.find((call) => !isToolCall(call));
    if (odd !== undefined)
      throw new PolicyError(`The policy's client gave a tool call that is not { id, name, arguments }, three strings: ${JSON.stringify(odd)}`, {
        endsRun: true,
      });
    const index = path.filter(({ turn }) => turn !== null).length;
    const left =
      callable.length === 0 || parsed.length > 0
        ? { attempts: parsed.map(readToolCall), content: sample.content ?? text }
        : leftToolCalls(text, index, callable);
    // Ids of a server are not unique in a rollout: some count from 0 in every reply.
    const callId = (call: number) => agentCallId(place.parent!, ordinal, call);
    const toolCalls =
      parsed.length > 0
        ? parsed.map(({ name, arguments: args }, i) => ({ id: callId(i), name, arguments: args, ...malformed(left.attempts[i]!) }))
        : agentCalls(left.attempts, callId);
    const heard = said(toolCalls.length === 0 ? text : left.content, stopReason, { mayBeOpen: reasoning === undefined });
    const message = messageOf({ sample, left, toolCalls });
    return {
      ...heard,
      ...(reasoning === undefined ? {} : { reasoning }),
      toolCalls,
      finish,
      usage,
      ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
      played: { message, isClosed: true },
      recorded: message,
      text,
      generation: {
        finish,
        stopReason,
        usage,
        maxNewTokens,
        keptTokens: null,
        overhang: '',
        ...(stopIsGuess ? { stopIsGuess } : {}),
        ...(stopWasIgnored ? { stopWasIgnored } : {}),
      },
      tokens: null,
    };
  }

  async count(): Promise<number> {
    return uncounted();
  }
}

/** Only the server could. */
function uncounted(): never {
  throw new AgentRefusal(
    400,
    null,
    'The tokens of messages cannot be counted here: the policy is an API of messages. Evaluate with a policy by token ids (-p embedded, -p vllm).',
  );
}

function malformed(attempt: ToolCallAttempt): Pick<ToolCall, 'malformed'> {
  return 'problem' in attempt ? { malformed: attempt.problem } : {};
}

type Sample = Awaited<ReturnType<ChatLease['generate']>>;

function messageOf({
  sample,
  left,
  toolCalls,
}: {
  readonly sample: Sample;
  readonly left: ReturnType<typeof leftToolCalls>;
  readonly toolCalls: SampledAgentTurn['toolCalls'];
}): Message {
  const { text, toolCalls: parsed = [], serverFields } = sample;
  const returned = serverFields === undefined ? {} : { serverFields };
  if (toolCalls.length === 0) return { ...assistantMessage(text, []), ...returned };
  const calls = toolCalls.map((call, i) => ({
    ...call,
    ...(parsed[i]?.serverFields === undefined ? {} : { serverFields: parsed[i].serverFields }),
  }));
  return { role: 'assistant', content: left.content, toolCalls: calls, ...returned };
}
