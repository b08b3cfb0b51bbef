// Boxes and what leads from one to another -> a place for each: the order of execution, as `inspection/picturing/order.py` has it.

/** For each box its place from 0 on, one behind whatever leads to it; links that go back in the order of the mean depths do not count. */
function placesOf(depths, links) {
  const order = depths.map((_, box) => box).sort((a, b) => depths[a] - depths[b] || a - b);
  const rank = new Int32Array(order.length);
  order.forEach((box, number) => (rank[box] = number));
  const readers = depths.map(() => new Set());
  for (const [source, target] of links) if (rank[source] < rank[target]) readers[source].add(target);
  const places = new Array(order.length).fill(0);
  for (const box of order) for (const reader of readers[box]) places[reader] = Math.max(places[reader], places[box] + 1);
  return places;
}

/** The box nearest to one in a direction, of `{key, x, y}`; null where none is there. */
function nearest(start, boxes, dx, dy) {
  let best = null;
  let least = Infinity;
  for (const box of boxes) {
    const [x, y] = [box.x - start.x, box.y - start.y];
    const ahead = x * dx + y * dy;
    const distance = ahead + 2.5 * Math.abs(x * dy + y * dx);
    if (ahead > 1 && distance < least) [best, least] = [box.key, distance];
  }
  return best;
}
