/**
 * The beginning of a Python script that asks the policy: `complete(messages)` returns the text of the answer. Over a socket, because the modules of Python for HTTP take longer to
 * load than all else that these programs do.
 */
export const PYTHON_CLIENT = `
import json, os, socket, sys
def complete(messages):
    host, _, path = os.environ['OPENAI_BASE_URL'].removeprefix('http://').partition('/')
    name, port = host.split(':')
    body = json.dumps({'model': os.environ['VF_MODEL'], 'messages': messages}).encode()
    head = f"POST /{path}/chat/completions HTTP/1.0\\r\\nhost: {host}\\r\\ncontent-type: application/json\\r\\nauthorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
    with socket.create_connection((name, int(port))) as connection:
        connection.sendall(head.encode() + body)
        answer = b''.join(iter(lambda: connection.recv(65536), b''))
    return json.loads(answer.partition(b'\\r\\n\\r\\n')[2])['choices'][0]['message']['content']
`;
