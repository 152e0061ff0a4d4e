/** Answers one frame of OpenEnv's WebSocket. */
import { jsonExcess } from '../../../core/json-bounds.ts';
import { ResetDataSchema, resetAnswerLine, stepAnswerLine } from '../../../schemas/environment-server/openenv.ts';
import { fieldsOf, isObject } from '../../../schemas/is-object.ts';
import { kindOf } from '../../../schemas/kind-of.ts';
import { schemaCheck, schemaProblem } from '../../../schemas/schema-check.ts';
import { type RequestJson, readRequestJson } from '../request-json.ts';
import type { OpenEnvSession } from './open-env-session.ts';
import { isWord } from './text-action.ts';
import { WireError, wireErrorOf } from './wire-error.ts';

interface Frame {
  readonly type: string;
  readonly data: unknown;
  /** As for `RequestJson`. */
  readonly rounded: unknown;
}

/** The frame that answers a text frame; null for one that closes the session. Never throws: a failure is an error frame. */
export async function frameAnswer(session: OpenEnvSession, text: string, onFailure: (error: unknown) => void): Promise<string | null> {
  try {
    const { type, data, rounded } = readFrame(text);
    switch (type) {
      case 'reset':
        return observationFrame(resetAnswerLine(await session.reset(checkedReset(data ?? {}, rounded ?? {}))));
      case 'step':
        return observationFrame(stepAnswerLine(await session.step(data)));
      case 'state':
        return JSON.stringify({ type: 'state', data: session.state });
      case 'close':
        return null;
      case 'mcp':
        throw new WireError('UNKNOWN_TYPE', 'This environment has no MCP tools. Act by a frame of the type step.');
      default:
        throw new WireError('UNKNOWN_TYPE', `The frame's type ${JSON.stringify(type.slice(0, 64))} is unknown. Send reset, step, state or close.`);
    }
  } catch (error) {
    const known = wireErrorOf(error);
    if (known === null) onFailure(error);
    return errorFrame(known ?? new WireError('EXECUTION_ERROR', 'The server failed. Its log says why.', { cause: error }));
  }
}

export function errorFrame({ data }: WireError): string {
  return JSON.stringify({ type: 'error', data });
}

/** The line is JSON already. */
function observationFrame(line: string): string {
  return `{"type":"observation","data":${line}}`;
}

function readFrame(text: string): Frame {
  const excess = jsonExcess(text);
  if (excess !== null) throw new WireError('VALIDATION_ERROR', `The frame ${excess}. Send a flat one.`);
  let json: RequestJson;
  try {
    json = readRequestJson(text, isWord);
  } catch (cause) {
    throw new WireError('INVALID_JSON', `The frame is not JSON: ${(cause as Error).message}.`, { cause });
  }
  const { value: frame, rounded } = json;
  if (!isObject(frame)) throw new WireError('VALIDATION_ERROR', `The frame is ${kindOf(frame)}. Send an object with type and data.`);
  const { type, data, ...others } = frame;
  if (typeof type !== 'string') throw new WireError('UNKNOWN_TYPE', `The frame's type is ${kindOf(type)}. Send reset, step, state or close.`);
  const [stranger] = Object.keys(others);
  if (stranger !== undefined) {
    throw new WireError(
      'VALIDATION_ERROR',
      `The frame has the key ${JSON.stringify(stranger.slice(0, 64))}, which is unknown. Send type and data alone.`,
    );
  }
  return { type, data, rounded: fieldsOf(rounded)['data'] };
}

function checkedReset(data: unknown, rounded: unknown) {
  const check = schemaCheck(ResetDataSchema);
  if (check(rounded) && check(data)) return data;
  throw new WireError('VALIDATION_ERROR', `${schemaProblem(check, "The reset's data")}. Send example_id, or seed, and episode_id, or none of them.`);
}
