/** The fields of a line of rollouts that the table reads, and the kinds of their values. */
import type { FieldKinds } from './field-kinds.ts';

export const ROLLOUT_FIELDS = [
  'rollout_id',
  'group_id',
  'rollout_index',
  'reward',
  'stop_condition',
  'num_turns',
  'token_usage',
  'metrics',
  'error',
  'task',
  'is_truncated',
  'restarted',
  'complete',
  'rollouts',
  'unpaid',
  'guessed_stops',
  'ignored_stops',
  'role',
  'answer',
  'info',
  'prompt',
  'completion',
  'segments',
  'branches',
] as const;

/** As `ResultSchema` and `TrajectorySchema` have them; verifiers itself also writes texts for conversations and errors. */
export const ROLLOUT_KINDS: FieldKinds = {
  reward: 'number',
  stop_condition: 'text',
  num_turns: 'number',
  token_usage: 'object',
  metrics: 'object',
  error: ['object', 'text'],
  task: 'text',
  is_truncated: 'flag',
  guessed_stops: 'number',
  ignored_stops: 'number',
  role: 'text',
  prompt: ['list', 'text'],
  completion: ['list', 'text'],
  segments: 'list',
  branches: 'list',
};
