/** What a chat template writes after a turn of the policy, found by a mark in the turn's place. */
import { PolicyError } from '../core/errors.ts';
import type { PlainTemplateMessage } from './template-messages.ts';

export interface MarkedTurn {
  readonly history: readonly PlainTemplateMessage[];
  /** Stands in the turn's place. */
  readonly mark: string;
  readonly next: readonly PlainTemplateMessage[];
}

interface TurnTemplate {
  /** The server or folder of the template. */
  readonly name: string;
  readonly render: (messages: readonly PlainTemplateMessage[]) => Promise<readonly number[]>;
  /** Null unless the mark occurs exactly once. */
  readonly afterMark: (ids: readonly number[]) => Promise<readonly number[] | null>;
}

export interface IdsAfterTurn {
  readonly messages: readonly PlainTemplateMessage[];
  /** Of all messages. */
  readonly ids: readonly number[];
  readonly after: readonly number[];
}

/** Throws PolicyError if the template cannot be used for several turns, or moves a message to where the policy has read already. */
export async function idsAfterTurn({ history, mark, next }: MarkedTurn, { name, render, afterMark }: TurnTemplate): Promise<IdsAfterTurn> {
  const whole = [...history, { role: 'assistant', content: mark }];
  const messages = [...whole, ...next];
  const ids = await render(messages);
  const after = await afterMark(ids);
  if (after === null)
    throw new PolicyError(
      `The chat template of ${name} does not write the content of an assistant message exactly once, so the text between turns cannot be found. ` +
        'Serve the model with another template (--chat-template).',
    );
  const others = next.filter(({ role }) => role !== 'system');
  // Some templates gather all system messages at the beginning: behind the turn, such a message makes no difference.
  if (others.length < next.length && (await afterMark(await render([...whole, ...others])))?.join() === after.join())
    throw new PolicyError(
      `The chat template of ${name} moves a later system message to the beginning of the conversation, which the policy has read already.`,
      { status: 400 },
    );
  return { messages, ids, after };
}
