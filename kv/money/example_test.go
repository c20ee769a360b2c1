package money_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"onced/kv/money"
)

func Example() {
	usd, err := money.ParseAsset("USD")
	if err != nil {
		panic(err)
	}
	price, err := money.ParsePositive("19.9", usd)
	if err != nil {
		panic(err)
	}
	fee, err := price.MulRatio(29, 1000, money.HalfUp)
	if err != nil {
		panic(err)
	}
	net, err := price.Sub(fee)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(net)
	if err != nil {
		panic(err)
	}
	fmt.Println(price, fee, string(text))
	_, err = money.Parse("19.999", usd)
	if wrong, ok := errors.AsType[*money.Error](err); ok {
		fmt.Println(wrong.Field, wrong.Problem)
	}
	// Output:
	// 19.90 USD 0.58 USD {"amount":"19.32","asset":"USD"}
	// amount has 3 digits behind the point, and USD has at most 2
}

func ExampleAssets() {
	tether, err := money.NewAsset("eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7", 6)
	if err != nil {
		panic(err)
	}
	assets, err := money.Assets{}.With(tether)
	if err != nil {
		panic(err)
	}
	asset, err := assets.Lookup("eip155:1/erc20:0xdac17f958d2ee523a2206206994597c13d831ec7")
	if err != nil {
		panic(err)
	}
	deposit, err := money.FromMinor(big.NewInt(2_500_000), asset) // as the chain logs it
	if err != nil {
		panic(err)
	}
	fmt.Println(deposit.Text())
	// Output: 2.500000
}
