/**
 * Rows of supervised data (`vf-train --sft`): a conversation, a prompt with its continuation, or token ids. docs/supervised.md describes them; lines of `vf-export`
 * and `vf-export --sft` are rows, too.
 */
import type { XStatic } from 'typebox/schema';
import { encodeWithFloats } from './float-json.ts';
import { branchPlace, placedPicture } from './rollout-columns.ts';
import { turnColumns } from './turn-columns.ts';
import { MOST_WEIGHT } from './messages-v1.ts';
import { anyOf, choice, closed, filledListOf, flag, listOf, number, object, text, textOrNull, textOrNumber, tokenIds } from './json-schema.ts';

const weight = { ...number, minimum: 0, maximum: MOST_WEIGHT } as const;
const role = choice('system', 'user', 'assistant', 'tool');

/** A picture is a path in the folder of pictures, or the SHA-256 of its bytes. */
const part = anyOf(closed({ image: { ...text, minLength: 1 } }), closed({ text }));
const message = object(
  { role, content: anyOf(text, filledListOf(part)) },
  { weight, tool_calls: listOf(object({})), tool_call_id: text, name: text },
);
/** The kinds of recorded rollouts, and `environment` for any that is not the model's. A misspelled `model` would not be learned. */
const kind = choice('model', 'environment', 'observation', 'corrective', 'prefill');
const segment = closed({ kind, text }, { weight, ends_turn: flag });
const about = { example_id: textOrNumber, task: textOrNull, group_id: text, reward: number } as const;

/** A chat: assistant messages have a loss, unless their weight says otherwise. */
export const MessagesRowSchema = object({ messages: filledListOf(message) }, about);
/** A prompt and the turn that continues it: segments of kind `model` have a loss. `completion` is one such segment, or the messages that follow. */
export const PromptRowSchema = object(
  { prompt: anyOf({ ...text, minLength: 1 }, filledListOf(message)) },
  { ...about, segments: filledListOf(segment), completion: anyOf(text, filledListOf(message)) },
);
/** Token ids: those with a mask of 1, or a weight above 0, have a loss. `images` are among them, in order. */
export const TokensRowSchema = object(
  { token_ids: tokenIds },
  {
    ...about,
    loss_mask: listOf(choice(0, 1)),
    weights: listOf(weight),
    tokenizer_hash: textOrNull,
    run_name: text,
    /** Of a rollout that has several branches, with a row for each. */
    rollout_id: text,
    ...branchPlace,
    ...turnColumns,
    images: listOf(closed(placedPicture)),
  },
);

export type DemonstrationMessage = XStatic<typeof message>;
export type DemonstrationSegment = XStatic<typeof segment>;
export type MessagesRow = XStatic<typeof MessagesRowSchema>;
export type PromptRow = XStatic<typeof PromptRowSchema>;
export type TokensRow = XStatic<typeof TokensRowSchema>;
export type DemonstrationRow = MessagesRow | PromptRow | TokensRow;

/** The row as a line of `vf-export --sft`, without the line feed. */
export const tokensRowLine = encodeWithFloats(TokensRowSchema);
