import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

export function sendText(response: ServerResponse, status: number, text: string, headers: OutgoingHttpHeaders): void {
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
}

export function sendJson(response: ServerResponse, status: number, value: object, headers: OutgoingHttpHeaders = {}): void {
  sendText(response, status, JSON.stringify(value), { ...headers, 'content-type': 'application/json' });
}
