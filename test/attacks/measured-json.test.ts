/**
 * What others send is measured before it is parsed: its bytes, its levels, lists, keys and values (`src/core/json-bounds.ts`). So each module that reads a connection or
 * the output of a process is known, with what measures there; and each that parses JSON by itself, with what the text is. Whole files are read by `src/files/json-file.ts`
 * and `src/files/source-text.ts`, lines by `src/files/records.ts` and `src/files/json-lines.ts`.
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
  'src/execution/program/program-sandbox.ts': 'passes bytes on',
  'src/files/process-group.ts': 'writes to a log, or gives streams to run-program.ts, which bounds them',
  'src/launch/vllm-process.ts': 'asks for a free port',
  'src/mcp/mcp-connection.ts': 'boundedResponse, and JsonBounds over stdio',
  'src/server/environment/openenv/session-socket.ts': 'jsonExcess, in frame-answer.ts',
  'src/server/environment/openenv/session-sockets.ts': 'jsonExcess, in frame-answer.ts',
  'src/server/gateway/answer-routes.ts': 'BodyBudget',
  'src/server/gateway/gateway-listener.ts': 'reads nothing itself',
  'src/server/incoming-body.ts': 'gives pieces to a BodyBudget',
  'src/server/listen.ts': 'BodyBudget',
  'src/server/send-text.ts': 'reads nothing',
  'src/server/unread.ts': 'reads nothing',
  'src/server/verifiers/wire-libraries.ts': 'boundedMsgpack',
  'src/server/verifiers/wire-socket.ts': 'boundedMsgpack',
  'src/server/verifiers/zmtp-door.ts': 'ZmtpMessage, and boundedMsgpack',
  'src/trainer/gradients/torch/rank-processes.ts': 'the worker of the package, by frames with a limit of bytes',
  'src/transport/http-endpoint.ts': 'ReplyBounds',
  'src/transport/proxy.ts': 'opens the connections of http-endpoint.ts and hub-connection.ts',
};

/** Modules that call JSON.parse, with what its text is. A text from outside is parsed by `readJson`, `readExactJson`, `jsonOrNull` or a reader of files, which say what is wrong with it. */
const PARSERS: Readonly<Record<string, string>> = {
  'environments/agent/answer.ts': "a line of a program's output of bounded length; anything else is no answer",
  'environments/self-play-code/buffer.ts': 'a state of a checkpoint; anything else is refused in one line',
  'environments/self-play-code/graded-object.ts': 'a string that a pattern found in a reply',
  'environments/visual-rag/python-values.ts': 'a literal of a reply, of bounded length',
  'src/clients/openai-chat-replica.ts': 'a body that this process wrote',
  'src/clients/openai-chat-stream.ts': 'an event within ReplyBounds',
  'src/clients/vllm-image-probe.ts': 'a string that a pattern found in a bounded reply',
  'src/clients/vllm-tokens-wire.ts': 'a reply within ReplyBounds',
  'src/templates/agent-template.ts': 'a word of a file that it writes',
  'src/core/json-reply.ts': 'a string that a pattern found in a reply',
  'src/core/read-json.ts': 'the parser of all others',
  'src/core/setting-differences.ts': 'values that this process wrote',
  'src/core/tool-calls.ts': 'arguments in a reply of bounded length',
  'src/data/bundled-models.ts': 'a file of the package',
  'src/data/bundled.ts': 'a file of the package',
  'src/data/package-root.ts': 'a file of the package',
  'src/doctor/check-server.ts': 'a body within boundedResponse',
  'src/evaluate/rescored-lines.ts': 'lines that were checked when the run was opened',
  'src/evaluate/result-record.ts': 'a value that this process wrote',
  'src/evaluate/row-content.ts': 'a value that this process wrote',
  'src/evaluate/run-config.ts': 'a value that this process wrote',
  'src/evaluate/run-index.ts': 'lines that were checked when the run was opened',
  'src/execution/runner-messages.ts': 'a reply of the runner, in a frame of bounded length',
  'src/files/source-text.ts': 'a file of a model of at most `maxBytes`',
  'src/launch/probe-python.ts': 'a line of a program of the package',
  'src/launch/server-health.ts': 'a body within boundedResponse',
  'src/models/replayed-models.ts': 'a value that this process wrote',
  'src/registry/find-environment.ts': 'a file of the package',
  'src/retrieval/bm25/index-manifest.ts': 'a manifest of at most 16 MiB, with a checksum',
  'src/retrieval/bm25/vocabulary.ts': 'a word that this process wrote',
  'src/retrieval/dense/dense-manifest.ts': 'a manifest of at most 16 MiB, with a checksum',
  'src/rounds/stage-files.ts': 'a small file that may be of another program, for its kind alone',
  'src/schemas/json-or-null.ts': 'any text; null for what is not JSON',
  'src/schemas/policy-server/chat-request.ts': 'arguments in a request, whose characters are counted',
  'src/schemas/results.ts': 'a line of a run, against its schema',
  'src/server/environment/openenv/chat-episode.ts': 'an answer of this process',
  'src/server/policy/request-body.ts': 'a body within BodyBudget',
  'src/server/verifiers/answers.ts': 'a value that this process wrote',
  'src/trainer/gradients/torch/frames.ts': 'a frame of the worker, of bounded length',
  'src/viewing/rollout-reader.ts': 'a line of a bounded length; what is no object is damaged',
  'src/viewing/top-level-fields.ts': 'a field of a line of a bounded length; undefined for what is not JSON',
};

function modulesThat(are: (text: string) => boolean): string[] {
  const files = ['src', 'environments'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path).replaceAll('\\', '/')),
  );
  return files.filter((path) => {
    if (!path.endsWith('.ts')) return false;
    return are(readFileSync(join(root, path), 'utf8'));
  });
}

describe('modules that read connections and processes', () => {
  it('are known, with what measures there', () => {
    expect(modulesThat((text) => Object.values(READS).some((reads) => reads.test(text))).toSorted()).toEqual(Object.keys(READERS).toSorted());
  });
});

describe('modules that parse JSON by themselves', () => {
  it('are known, with what their text is', () => {
    const code = (text: string) => text.replaceAll(/^\s*(?:\/?\*|\/\/).*$/gm, '');
    expect(modulesThat((text) => code(text).includes('JSON.parse(')).toSorted()).toEqual(Object.keys(PARSERS).toSorted());
  });
});
