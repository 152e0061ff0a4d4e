export { closestName, suggestion } from '../core/closest-name.ts';
