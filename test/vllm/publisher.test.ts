import { inject } from 'vitest';
import { weightPublisherContract } from '../contracts/weight-publisher.ts';

weightPublisherContract('real vLLM', async () => ({ url: inject('vllmLoraUrl'), baseModel: 'nano-base', [Symbol.asyncDispose]: async () => {} }));
