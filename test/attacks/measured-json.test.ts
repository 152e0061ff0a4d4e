/**
 * What others send is measured before it is parsed: its bytes, its levels, lists, keys and values (`src/core/json-bounds.ts`). So each module that reads a connection or
 * the output of a process is known, with what measures there.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** How a module reads what others send: by a connection, or from a process. */
const READS = {
  connection: /(?<![.\w#])fetch\(|from 'undici'|from 'ws'|'node:https?'|'node:http2'|'node:net'|'node:tls'|zeromq'|StreamableHTTPClientTransport/,
  process: /StdioClientTransport|'node:child_process'/,
};

const READERS: Readonly<Record<string, string>> = {
  'environments/self-play-code/rename-identifiers/rename-identifiers.ts': 'git status, by its lines',
  'src/cli/rounds/run/own-process.ts': 'a command of the package',
  'src/cli/view/open-browser.ts': 'reads nothing',
  'src/data/hub-connection.ts': 'boundedResponse',
  'src/doctor/check-run.ts': 'listens for a moment, and reads nothing',
  'src/execution/process/sandboxed-process.ts': 'frames with a limit of bytes; a reply is text',
  'src/launch/gpu-cards.ts': 'nvidia-smi',
  'src/launch/probe-python.ts': "a program of the package, in the user's Python",
  'src/launch/process-group.ts': 'writes to a log',
  'src/launch/vllm-process.ts': 'asks for a free port',
  'src/pipelines/mcp-server.ts': 'boundedResponse, and JsonBounds over stdio',
  'src/server/environment/openenv/session-socket.ts': 'jsonExcess, in frame-answer.ts',
  'src/server/environment/openenv/session-sockets.ts': 'jsonExcess, in frame-answer.ts',
  'src/server/listen.ts': 'BodyBudget',
  'src/server/unread.ts': 'reads nothing',
  'src/server/verifiers/wire-libraries.ts': 'boundedMsgpack',
  'src/server/verifiers/wire-socket.ts': 'boundedMsgpack',
  'src/server/verifiers/zmtp-door.ts': 'ZmtpMessage, and boundedMsgpack',
  'src/trainer/gradients/torch/rank-processes.ts': 'the worker of the package, by frames with a limit of bytes',
  'src/transport/http-endpoint.ts': 'ReplyBounds',
  'src/transport/proxy.ts': 'opens the connections of http-endpoint.ts and hub-connection.ts',
};

function readers(): string[] {
  const files = ['src', 'environments'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path).replaceAll('\\', '/')),
  );
  return files.filter((path) => {
    if (!path.endsWith('.ts')) return false;
    const text = readFileSync(join(root, path), 'utf8');
    return Object.values(READS).some((reads) => reads.test(text));
  });
}

describe('modules that read connections and processes', () => {
  it('are known, with what measures there', () => {
    expect(readers().toSorted()).toEqual(Object.keys(READERS).toSorted());
  });
});
