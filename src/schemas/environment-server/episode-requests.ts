/** The requests of `POST /v1/episodes` and `POST /v1/episodes/step`: a caller that owns the policy plays episodes with its own samples. */
import type { XStatic } from 'typebox/schema';
import { anyOf, atLeastOne, choice, closed, count, filledText, json, listOf, numberOrNull, text, textOrNumber, tokenIds } from '../json-schema.ts';

/** Most episodes of one request. */
const MOST_EPISODES = 1024;

const batch = { minItems: 1, maxItems: MOST_EPISODES } as const;

const policyKind = choice('tokens', 'chat');

export const EpisodesRequestSchema = closed(
  {
    policy: closed({ kind: policyKind }, { model: filledText, version: count, max_model_len: atLeastOne }),
    episodes: { ...listOf(closed({ example_id: textOrNumber }, { group_id: filledText })), ...batch },
  },
  { sampling: json, max_new_tokens: atLeastOne },
);
export type EpisodesRequest = XStatic<typeof EpisodesRequestSchema>;

const entry = { episode_id: filledText, turn: count } as const;
const ending = { finish_reason: choice('stop', 'length'), version: count } as const;

const TokenStepSchema = closed({ ...entry, token_ids: tokenIds, logprobs: listOf(numberOrNull) }, ending);
const ChatStepSchema = closed({ ...entry, text }, ending);
/** Waits for the answer to the last sample. */
const PollSchema = closed({ episode_id: filledText });

/** Entries are checked one by one, so that a bad one does not affect the others. */
export const StepRequestSchema = closed({ episodes: { ...listOf(json), ...batch } });

/** For the description of the API: any other object is answered by an error in its place. */
export const DescribedStepRequestSchema = closed({ episodes: { ...listOf(anyOf(TokenStepSchema, ChatStepSchema, PollSchema, json)), ...batch } });

/** A sample for one turn of an episode, of which only the shape was checked. */
export interface StepSample {
  readonly turn: number;
  readonly sample: StepTokens | StepText;
  /** Null if the caller does not say. */
  readonly finish: 'stop' | 'length' | null;
  readonly version: number | null;
}

interface StepTokens {
  readonly kind: 'tokens';
  readonly tokenIds: readonly number[];
  /** NaN if JSON has null. */
  readonly logProbs: readonly number[];
}

interface StepText {
  readonly kind: 'chat';
  readonly text: string;
}
