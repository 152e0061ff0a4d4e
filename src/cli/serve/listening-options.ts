/** Options of every command that listens over HTTP. */
import { flag, text, wholeNumber } from '../options/kinds.ts';

export const LISTENING = {
  host: text('address to listen on; anything but loopback is open to the network', { placeholder: 'ADDRESS', default: '127.0.0.1' }),
  port: wholeNumber('port to listen on; 0 picks any free one', { to: 65_535, default: 8000 }),
};

export const VERBOSE = { verbose: flag('stack traces of failures', { letter: 'v' }) };

export const API_KEY = { apiKeyVar: text('environment variable that holds the API key required of clients', { placeholder: 'NAME' }) };
