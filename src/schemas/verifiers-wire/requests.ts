/**
 * The requests of the environment server of verifiers 0.4.0 (`verifiers.v1.serve.types`), and `tasks`, which this package adds. Fields that are not read here are
 * allowed.
 */
import type { XStatic } from 'typebox/schema';
import { byName, choice, count, filledText, json, nullable, object, serverUrl, text } from '../json-schema.ts';

/** Most rows of one answer to `tasks`. */
export const MOST_TASKS = 1000;

export const RunRequestSchema = object(
  {
    /** The row, in the form of the client's task; it comes back on the trace. */
    task_data: object({}, { example_id: { type: ['string', 'number', 'null'] }, idx: nullable(count) }),
    client: object(
      { base_url: serverUrl },
      {
        /** `train` needs token ids and log-probs. */
        type: choice('eval', 'train'),
        api_key_var: nullable(text),
        headers: nullable(byName(text)),
        /** Names of headers and the variables of the server's process that hold their values. */
        headers_from_env: nullable(byName(text)),
      },
    ),
    model: filledText,
  },
  { sampling: json },
);
export type RunRequest = XStatic<typeof RunRequestSchema>;

export const CancelRequestSchema = object({ request_id: text });

export const TasksRequestSchema = object({}, { offset: count, limit: { ...count, maximum: MOST_TASKS } });
