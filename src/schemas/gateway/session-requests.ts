/** The requests of `vf-serve gateway`: a trainer opens a session for an agent, and says what its rollout was worth. */
import type { XStatic } from 'typebox/schema';
import { atLeastOne, closed, filledText, flag, json, number, textOrNumber } from '../json-schema.ts';

export const SessionRequestSchema = closed(
  {},
  {
    /** The row that the agent works on, for the record. @default the id of the session */
    example_id: textOrNumber,
    /** Rollouts that are compared share it. @default the id of the row */
    group_id: filledText,
    /** Fields of OpenAI's API. @default those of the server */
    sampling: json,
    /** False: an agent's own settings hold where it gives some. @default true */
    override_sampling: flag,
    /** @default no limit */
    max_turns: atLeastOne,
    /** Tokens of the policy in all turns together. @default no limit */
    max_completion_tokens: atLeastOne,
    /** Seconds after which the session ends by itself. @default that of the server, which is also the most */
    timeout: { ...number, exclusiveMinimum: 0 },
  },
);
export type SessionRequest = XStatic<typeof SessionRequestSchema>;

export const RewardRequestSchema = closed({ reward: number });
