// Package intent derives one of the four action types from an agent's text about an
// action, for checks that do not name a type.
//
// It is deterministic, offline and bounded (S19): a lexicon of weighted words
// and phrases (lexicon.txt) is matched against the stemmed, typo-corrected
// words; negations and contrasts ("no refund, apply credit", "instead of a
// discount ...") scale what they govern; small weights fitted to the training
// part of testdata/corpus.tsv (weights.tsv) add what context words suggest.
// All arithmetic at run time is on integers, so that every node of a fleet
// gives the same answer on any processor. All digits are treated alike: the
// classifier judges words, never amounts.
//
// # What the four types cover
//
//   - refund returns money that was taken for something: refunds,
//     reversals, voids, settled chargebacks, released deposits, a credit back
//     to the card that paid.
//   - credit leaves value with the customer that is not money in hand: store
//     and account credit, credit notes, vouchers, gift cards, points and wallet
//     top-ups given as compensation.
//   - discount lowers a price before it is paid: percent off, coupons and
//     promo codes, price matches, markdowns, waived fees.
//   - spend pays for what the organisation itself uses or owes: vendors,
//     invoices, payroll, travel, advertising. Reimbursing an employee's expense
//     is spend, because no customer's payment is undone by it; reimbursing a
//     customer is refund. Buying vouchers or gift cards is spend, too.
//
// Text that fits none of them is spend with confidence low.
package intent
