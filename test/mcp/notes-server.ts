/** An MCP server with state, for tests: over stdio, or over streamable HTTP with a session for each client. Its first argument is the mode, its second a file for its process id. */
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ErrorCode, ListToolsRequestSchema, McpError } from '@modelcontextprotocol/sdk/types.js';

const [mode = 'stdio', log] = process.argv.slice(2);
const say = (line: string) => log !== undefined && appendFileSync(log, `${line}\n`);
say(`started ${process.pid}`);

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
const OWN_TOOLS = ['note', 'notes', 'reset', 'fail', 'picture', 'slow', 'crash', 'break', 'long', 'env.of', 'structured', 'refuse'];
const TOOLS = process.env['TOOLS'] === undefined ? OWN_TOOLS : (JSON.parse(process.env['TOOLS']) as string[]);

function notesServer(): Server {
  const notes: string[] = [];
  const server = new Server({ name: 'notes', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: TOOLS.map((name) => ({
      name,
      description: `The tool ${name}.`,
      inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: args = {} } }, { signal }) => {
    const given = String(args['text']);
    switch (name) {
      case 'note':
        notes.push(given);
        return text(`noted ${given}`);
      case 'notes':
        return text(notes.join(', '));
      case 'reset':
        notes.length = 0;
        say('reset');
        return text('empty');
      case 'fail':
        return { ...text(args['text'] === undefined ? 'no such note' : `no note ${given}`), isError: true };
      case 'picture':
        return {
          content: [
            { type: 'text', text: 'Look:' },
            { type: 'image', mimeType: 'image/png', data: 'AAAA' },
            { type: 'resource', resource: { uri: 'note://1', text: 'the note' } },
            { type: 'resource_link', name: 'more', uri: 'note://2' },
          ],
        };
      case 'slow':
        say('slow');
        signal.addEventListener('abort', () => say('cancelled'));
        return new Promise(() => {});
      case 'crash':
        process.stderr.write('out of ink\n');
        return process.exit(3);
      case 'long':
        return text('é'.repeat(100_000));
      case 'env.of':
        return text(process.env[given] ?? 'not set');
      case 'break':
        throw new McpError(ErrorCode.InternalError, `broken at ${given}`);
      case 'structured':
        return { content: [], structuredContent: { n: 1 } };
      default:
        throw new McpError(ErrorCode.InvalidParams, `${name} takes no ${given}`);
    }
  });
  return server;
}

if (mode === 'http') {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const http = createServer((request, response) => {
    void (async () => {
      say(`${request.method} ${request.headers.authorization ?? '-'}`);
      const id = request.headers['mcp-session-id'];
      let transport = typeof id === 'string' ? sessions.get(id) : undefined;
      if (transport === undefined) {
        if (typeof id === 'string') return response.writeHead(404).end('no such session');
        const opened = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (session) => void sessions.set(session, opened),
        });
        await notesServer().connect(opened);
        transport = opened;
      }
      return transport.handleRequest(request, response);
    })();
  });
  http.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1', () =>
    process.stdout.write(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp\n`),
  );
} else await notesServer().connect(new StdioServerTransport());
