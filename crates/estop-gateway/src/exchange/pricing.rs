//! What one request may cost before it is forwarded, and what its answer cost (PO-2).

use estop_core::event::Estimate;
use estop_core::money::NanoUsd;
use estop_core::prices::{Price, TokenUse};

/// Bytes of text to a token, roughly: what rates are counted with, and nothing is reserved or booked with.
pub(crate) const RATE_BYTES_PER_TOKEN: u64 = 4;
/// Tokens a provider may add to what a client sends: the frame of the conversation, and the prompt that explains tools.
/// Anthropic's is the longest that is documented, with some 700.
const ADDED_INPUT: u64 = 1_024;
/// Reserved for what a request refers to and does not send, where nobody knows how much its model reads.
const UNSEEN_INPUT: u32 = 272_000;

/// The prices of the models a request names: its path and its body may name two, a router may take others, and the dearest
/// counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelPrices {
    /// `None` = that model has no price.
    first: Option<Price>,
    others: Vec<Option<Price>>,
}

/// How large a request is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Bytes of all text it sends.
    pub text_bytes: usize,
    /// Bytes of its body.
    pub body_bytes: usize,
    /// It goes on from something the provider keeps.
    pub refers_to_more: bool,
    /// The most tokens the client allows for all answers together; `None` = it says nothing.
    pub output_limit: Option<u32>,
    /// How many answers it asks for.
    pub answers: u32,
    /// A model writes an answer to it.
    pub generates: bool,
}

impl ModelPrices {
    /// Of the model a request names, and of others beside it.
    pub(crate) fn new(first: Option<Price>, others: Vec<Option<Price>>) -> ModelPrices {
        ModelPrices { first, others }
    }

    fn all(&self) -> impl Iterator<Item = &Option<Price>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn known(&self) -> impl Iterator<Item = &Price> {
        self.all().flatten()
    }

    /// Whether one of the models has no price.
    pub(crate) fn is_unpriced(&self) -> bool {
        self.all().any(Option::is_none)
    }

    /// Whether one of the models may write what nobody sees.
    pub(crate) fn reasons(&self) -> bool {
        self.known().any(|price| price.limits().reasons)
    }

    /// What tokens cost, by the dearest price.
    pub(crate) fn cost(&self, used: &TokenUse) -> NanoUsd {
        self.known().map(|price| price.cost(used)).max().unwrap_or_default()
    }

    fn cost_at_most(&self, input: u64, output: u64) -> NanoUsd {
        self.known().map(|price| price.cost_at_most(input, output)).max().unwrap_or_default()
    }

    /// The most one answer has; `reserve` for a model whose maximum nobody knows.
    fn max_output(&self, reserve: u32) -> u32 {
        let of = |price: &Option<Price>| price.as_ref().and_then(|price| price.limits().max_output);
        self.all().map(|price| of(price).unwrap_or(reserve)).max().unwrap_or(reserve)
    }

    fn max_input(&self) -> u32 {
        self.known().filter_map(|price| price.limits().max_input).max().unwrap_or(UNSEEN_INPUT)
    }

    /// What a request may cost.
    ///
    /// No token is shorter than a byte, and each message and tool has more bytes around it in JSON than tokens in the
    /// provider's frame: the bytes of the body, and what the provider adds, are a bound on what is sent.
    pub(crate) fn estimate(&self, size: Size, reserve: u32) -> Estimate {
        let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let likely =
            if size.text_bytes > 0 { size.text_bytes } else { size.body_bytes } as u64 / RATE_BYTES_PER_TOKEN;
        let unseen = if size.refers_to_more { self.max_input() } else { 0 };
        let input = size.body_bytes as u64 + ADDED_INPUT + u64::from(unseen);
        let output = match size.output_limit {
            _ if !size.generates => 0,
            Some(limit) => limit,
            None => self.max_output(reserve).saturating_mul(size.answers.max(1)),
        };
        // What is asked for is what is sent, as far as can be told, and the limit the client names itself.
        let asked_output = if size.output_limit.is_some() { output } else { 0 };
        let usd = self.cost_at_most(input, output.into());
        let asked = TokenUse { input: likely, output: asked_output.into(), ..TokenUse::default() };
        let (input_tokens, most) = (small(likely), small(input));
        let more_input_tokens = most.saturating_sub(input_tokens);
        Estimate {
            input_tokens,
            output_tokens: output,
            usd,
            unpriced: self.is_unpriced(),
            more_input_tokens,
            open_tokens: u64::from(more_input_tokens) + u64::from(output - asked_output),
            open_usd: NanoUsd(usd.0.saturating_sub(self.cost(&asked).0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use estop_core::budget::{Amount, Need};
    use estop_core::prices::{ModelLimits, RatesIn};

    use super::*;

    fn price(dollars_in: u64, dollars_out: u64, max_output: Option<u32>) -> Price {
        let dollar = NanoUsd::DOLLAR.0;
        let rates =
            RatesIn { input: dollars_in * dollar, output: dollars_out * dollar, ..RatesIn::default() };
        let limits = ModelLimits { max_output, max_input: Some(400_000), reasons: false };
        Price::flat(rates).limited(limits)
    }

    fn size(body_bytes: usize) -> Size {
        Size { body_bytes, text_bytes: body_bytes / 2, generates: true, ..Size::default() }
    }

    #[test]
    fn po_2_without_a_limit_the_models_own_maximum_is_reserved_for_each_answer() {
        let prices = ModelPrices::new(Some(price(1, 10, Some(128_000))), Vec::new());
        let one = prices.estimate(size(1_000), 7);
        assert_eq!((one.output_tokens, one.open_tokens), (128_000, 128_000 + 2_024 - 125));
        let five = prices.estimate(Size { answers: 5, ..size(1_000) }, 7);
        assert_eq!(five.output_tokens, 640_000);
        let limited = prices.estimate(Size { output_limit: Some(100), ..size(1_000) }, 7);
        assert_eq!((limited.output_tokens, limited.open_tokens), (100, 2_024 - 125));
        let unknown = ModelPrices::new(Some(price(1, 10, None)), Vec::new());
        assert_eq!(unknown.estimate(size(1_000), 7).output_tokens, 7);
        assert_eq!(ModelPrices::default().estimate(size(1_000), 7).output_tokens, 7);
    }

    #[test]
    fn po_2_what_is_sent_is_bounded_by_its_bytes_and_what_is_referred_to_by_the_context() {
        let prices = ModelPrices::new(Some(price(1, 10, Some(10))), Vec::new());
        let need = Need::from(prices.estimate(size(10_000), 7));
        assert_eq!(need.most, Amount { usd: NanoUsd(11_024_000 + 100_000), tokens: 11_034 });
        let refers = prices.estimate(Size { refers_to_more: true, ..size(10_000) }, 7);
        assert_eq!(refers.input_reserved(), 411_024);
    }

    #[test]
    fn po_2_the_dearer_of_two_models_counts() {
        let (nano, pro) = (price(1, 2, Some(1_000)), price(15, 120, Some(272_000)));
        let cheap = ModelPrices::new(Some(nano.clone()), Vec::new());
        let both = ModelPrices::new(Some(nano.clone()), vec![Some(pro.clone())]);
        let dear = ModelPrices::new(Some(pro), Vec::new());
        let used = TokenUse { input: 1_000, output: 1_000, ..TokenUse::default() };
        assert_eq!(both.cost(&used), dear.cost(&used));
        assert!(both.cost(&used) > cheap.cost(&used));
        assert_eq!(both.estimate(size(100), 7).output_tokens, 272_000);
        assert!(!both.is_unpriced());
        let unknown = ModelPrices::new(Some(nano), vec![None]);
        assert!(unknown.is_unpriced());
        assert_eq!(unknown.cost(&used), cheap.cost(&used));
    }
}
